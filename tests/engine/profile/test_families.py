"""Families by name: the order of the rules, a user's own rules, short names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.errors import FileError
from engine.profile.families import VARIABLE, load_families
from tests.engine.profile.made_traces import KERNELS
from tests.support import ROOT

RULES = load_families()
FIXTURE = Path(__file__).with_name("kernels.tsv")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        *KERNELS.items(),
        ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80", "attention"),
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>()", "kv_write"),  # the first rule that matches
        ("apply_rope_kernel", "rope"),
        ("void some::properties_kernel()", "other"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
        ("void at::native::renormRowsL1<float>(float*, long, long)", "sampling"),
        ("Cijk_Ailk_Bljk_SB_MT64x64x16", "gemm"),
        ("triton_red_fused_native_layer_norm_0", "fused"),
        ("reduce_segments", "attention"),
        ("get_mla_kv_buffer_kernel", "other"),
        ("reset_kv_cache", "other"),
        ("prefill_kv_cache_attention", "attention"),
    ],
)
def test_kernels(name: str, family: str) -> None:
    assert RULES.of("kernel", name) == ("device", family)


def kernels() -> list[list[str]]:
    return [line.split("\t") for line in FIXTURE.read_text().splitlines()]


@pytest.mark.parametrize(("model", "family", "name"), kernels())
def test_kernels_of_vision_recommendation_and_language_models(model: str, family: str, name: str) -> None:
    """What kernels wrap, their namespaces and the types that they are given must not decide."""
    assert RULES.of("kernel", name) == ("device", family) == RULES.of_name(name)


def test_our_own_kernels_have_their_families() -> None:
    source = (ROOT / "engine/decode/kernels.py").read_text(encoding="utf-8")
    names = re.findall(r"@triton\.jit(?:\(.*\))?\ndef (\w+)", source)
    assert {name: RULES.of("kernel", name)[1] for name in names if name.startswith("driftscope_")} == {
        "driftscope_product": "gemm",
        "driftscope_turn": "rope",
        "driftscope_attend": "attention",
        "driftscope_merge": "attention",
    }


FUSED = {
    "triton_poi_fused_mul_silu_8": "fused 8 pointwise: mul, silu",
    "triton_red_fused__to_copy_copy__fused_add_rms_norm_3": "fused 3 reduction: _to_copy, copy_, fused_add_rms_norm",
    "triton_per_fused_native_layer_norm_relu_15": "fused 15 persistent reduction: native_layer_norm, relu",
    "triton_per_fused__softmax_mul_sum.kd": "fused persistent reduction: _softmax, mul, sum",
    "triton_tem_fused_mm_7": "fused 7 template: mm",
    "triton_poi_fused_0": "fused 0 pointwise",
    "triton_for_fused_2": "fused 2 foreach",
    "triton_poi_fused_cat_2_0d1d2d3": "fused 2 pointwise: cat",
    "triton_red_fused_upsample_nearest2d_1_01d2de": "fused 1 reduction: upsample, nearest2d",
    "triton_poi_fused_normalise_0": "fused 0 pointwise: normalise",  # which no list has, and is not norm
}


@pytest.mark.parametrize(("name", "words"), FUSED.items())
def test_a_fused_kernel_names_what_it_fuses(name: str, words: str) -> None:
    assert RULES.short_name(name) == words


CATEGORIES = {
    "device memcpy": ["gpu_memcpy: Memcpy HtoD (Pageable -> Device)"],
    "call launch": ["cuda_runtime: cudaLaunchKernel", "cuda_driver: cuLaunchKernelEx", "hip_runtime: hipLaunchKernel"],
    "call graph_launch": ["cuda_runtime: cudaGraphLaunch", "cuda_driver: cuGraphLaunch", "hip_runtime: hipGraphLaunch"],
    "call sync": ["cuda_runtime: cudaDeviceSynchronize", "cuda_runtime: cudaEventQuery"],
    "call memcpy_call": ["cuda_runtime: cudaMemcpyAsync"],
    "call other_call": ["cuda_runtime: cudaFuncGetAttributes", "mtia_runtime: something"],
    "python python": ["python_function: run.py(3): forward"],
    "mark annotation": ["user_annotation: step"],
    "mark profiler": ["Trace: PyTorch Profiler (0)", "mtia_ccp_events: gemm"],
    "mark wait": ["cuda_event: Event Record"],
    "host cpu_op": ["cpu_op: aten::mm", "never heard of: x"],
}


@pytest.mark.parametrize(("expected", "events"), CATEGORIES.items())
def test_categories(expected: str, events: list[str]) -> None:
    for event in events:
        category, _, name = event.partition(": ")
        assert RULES.of(category, name) == tuple(expected.split()), event


OPERATORS = {
    "attention": "aten::scaled_dot_product_attention aten::_scaled_dot_product_flash_attention_for_cpu",
    "gemm": "aten::addmm aten::addmm_ aten::linear",
    "concat": "aten::cat",
    "copy": "aten::copy_ aten::_to_copy aten::to aten::item aten::_local_scalar_dense",
    "view": "aten::t aten::transpose aten::slice",
    "fill": "aten::empty_strided aten::zero_",
    "elementwise": "aten::add_ aten::silu aten::__or__",
    "other": "my::operator",
}


@pytest.mark.parametrize(("family", "names"), OPERATORS.items())
def test_operators(family: str, names: str) -> None:
    kinds = {name: RULES.of("cpu_op", name, has_device=False) for name in names.split()}
    assert kinds == dict.fromkeys(kinds, ("host", family))


NAMES = """
    cudaStreamSynchronize | call sync
    Memcpy DtoD (Device -> Device) | device memcpy
    aten::cat | host cpu_op
    [CUDA memcpy HtoD] | device memcpy
    void (anonymous namespace)::mystery<float>(int) | device other
    loop_reduce_fusion.12 | device reduce
    nn.Module: Linear_0 | python python
    Buffer Flush | mark profiler
    DistributedDataParallel.forward | mark annotation
"""


@pytest.mark.parametrize("line", NAMES.strip().splitlines())
def test_names_alone(line: str) -> None:
    name, _, expected = line.strip().rpartition(" | ")
    assert RULES.of_name(name) == tuple(expected.split())


def test_a_name_takes_time_that_does_not_go_with_the_square_of_its_length() -> None:
    assert RULES.of_name(1_000_000 * "1") == ("mark", "mark")


def test_rules_of_ones_own_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        '[categories]\nnpu_kernel = "device"\n[[rule]]\nside = "device"\nfamily = "mine"\npattern = "mystery|cutlass"\n'
    )
    monkeypatch.setenv(VARIABLE, str(own))
    rules = load_families()
    assert rules.of("NPU_kernel", "the MYSTERY") == ("device", "mine")
    assert rules.of("kernel", "fmha_cutlass") == ("device", "mine")
    assert rules.of("kernel", "nvjet") == ("device", "gemm")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('[[rule]]\nside = "device"\nfamily = "x"', "a pattern, names or categories"),
        ('[[rule]]\nside = "roof"\nfamily = "x"\npattern = "y"', "'roof' is no side"),
        ('[[rule]]\nside = "device"\nfamily = "x"\npattern = "("', "is no file of families"),
        ('[[rule]]\nside = "device"\nfamily = "x"\nnames = "y"', "names and categories are lists of texts"),
        ('[categories]\nx = "roof"', "'roof' is no side"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, word: str) -> None:
    own = tmp_path / "own.toml"
    monkeypatch.setenv(VARIABLE, str(own))
    with pytest.raises(FileError, match="cannot be read"):
        load_families()
    own.write_text(text)
    with pytest.raises(FileError, match=word):
        load_families()
