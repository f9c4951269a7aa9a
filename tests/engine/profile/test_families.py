"""Families by name: the order of the rules, a user's own rules, short names."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import FileFormatError
from engine.profile.families import MOST_SHORT, OTHERS, VARIABLE, load_families, short_name
from tests.engine.profile.made_traces import KERNELS

RULES = load_families()
FIXTURE = Path(__file__).with_name("kernels.tsv")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        *KERNELS.items(),
        ("fmha_cutlassF_bf16_aligned_64x128_rf_sm80", "attention"),
        ("void flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)", "attention"),
        ("void vllm::paged_attention_v1_kernel<float>()", "attention"),
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>()", "attention"),  # the first rule that matches
        ("void vllm::rotary_embedding_kernel<float>()", "rope"),
        ("apply_rope_kernel", "rope"),
        ("void some::properties_kernel()", "other"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "communication"),
        ("ncclKernel_AllGather_RING", "communication"),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>()", "norm"),
        ("void at::native::distribution_elementwise_grid_stride_kernel<float, 4, normal_>()", "sampling"),
        ("void at::native::renormRowsL1<float>(float*, long, long)", "sampling"),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn", "gemm"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float>()", "gemm"),
        ("void gemv2T_kernel_val<int, int, float>()", "gemm"),
        ("Cijk_Ailk_Bljk_SB_MT64x64x16", "gemm"),
        ("void cudnn::winograd_nonfused::winogradForwardData4x4()", "conv"),
        ("void at::native::sbtopk::gatherTopK<float>()", "sort"),
        ("void cub::DeviceRadixSortOnesweepKernel<>()", "sort"),
        ("void at::native::indexSelectSmallIndex<float>(int)", "index"),
        ("triton_poi_fused_add_mul_0", "triton"),
        ("triton_red_fused_native_layer_norm_0", "norm"),
        ("void at::native::tensor_kernel_scan_innermost_dim<float>()", "reduce"),
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


@pytest.mark.parametrize("own", ["mystery", "void mystery", "void at::native::(anonymous namespace)::mystery"])
@pytest.mark.parametrize(
    "hint",
    ["cutlass::gemm::X", "fbgemm_gpu::Y", "at::PhiloxCudaState", "cudnnTensorStruct", "flash::Z", "softmax::norm"],
)
def test_templates_parameters_and_namespaces_do_not_decide(own: str, hint: str) -> None:
    assert RULES.of("kernel", f"{own}<{hint}>({hint})") == ("device", "other")
    space = hint.split(":")[0]
    assert RULES.of("kernel", f"void {space}::inner::mystery<float>(int)") == ("device", "other")


@pytest.mark.parametrize(
    ("category", "name", "expected"),
    [
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", ("device", "memcpy")),
        ("Memset", "Memset (Device)", ("device", "memset")),
        ("cuda_runtime", "cudaLaunchKernel", ("call", "launch")),
        ("cuda_driver", "cuLaunchKernelEx", ("call", "launch")),
        ("cuda_runtime", "cudaLaunchKernelExC", ("call", "launch")),
        ("cuda_runtime", "cudaGraphLaunch", ("call", "launch")),
        ("hip_runtime", "hipLaunchKernel", ("call", "launch")),
        ("cuda_runtime", "cudaDeviceSynchronize", ("call", "sync")),
        ("cuda_runtime", "cudaEventQuery", ("call", "sync")),
        ("cuda_runtime", "cudaEventRecord", ("call", "event")),
        ("cuda_runtime", "cudaMemcpyAsync", ("call", "memcpy_call")),
        ("cuda_runtime", "cudaHostAlloc", ("call", "memory")),
        ("cuda_runtime", "cudaFuncGetAttributes", ("call", "other_call")),
        ("mtia_runtime", "something", ("call", "other_call")),
        ("python_function", "run.py(3): forward", ("python", "python")),
        ("user_annotation", "step", ("mark", "annotation")),
        ("Trace", "PyTorch Profiler (0)", ("mark", "profiler")),
        ("mtia_ccp_events", "gemm", ("mark", "profiler")),
        ("cuda_profiler_range", "__cupti_profiler__", ("mark", "profiler")),
        ("cuda_event", "Event Record", ("mark", "wait")),
        ("cpu_op", "aten::mm", ("host", "cpu_op")),
        ("never heard of", "x", ("host", "cpu_op")),
    ],
)
def test_categories(category: str, name: str, expected: tuple[str, str]) -> None:
    assert RULES.of(category, name) == expected


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("aten::scaled_dot_product_attention", "attention"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention"),
        ("aten::addmm", "gemm"),
        ("aten::addmm_", "gemm"),
        ("aten::linear", "gemm"),
        ("aten::cat", "concat"),
        ("aten::copy_", "copy"),
        ("aten::_to_copy", "copy"),
        ("aten::to", "copy"),
        ("aten::item", "copy"),
        ("aten::_local_scalar_dense", "copy"),
        ("aten::native_layer_norm", "norm"),
        ("aten::normal_", "sampling"),
        ("aten::_softmax", "softmax"),
        ("aten::t", "view"),
        ("aten::transpose", "view"),
        ("aten::index_copy_", "index"),
        ("aten::slice_scatter", "index"),
        ("aten::slice", "view"),
        ("aten::argmax", "reduce"),
        ("aten::empty_strided", "fill"),
        ("aten::zero_", "fill"),
        ("aten::add_", "elementwise"),
        ("aten::silu", "elementwise"),
        ("aten::__or__", "elementwise"),
        ("aten::topk", "sort"),
        ("my::operator", "other"),
    ],
)
def test_operators(name: str, family: str) -> None:
    assert RULES.of("cpu_op", name, has_device=False) == ("host", family)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cudaLaunchKernel", ("call", "launch")),
        ("cuLaunchKernelEx", ("call", "launch")),
        ("cudaStreamSynchronize", ("call", "sync")),
        ("Memcpy DtoD (Device -> Device)", ("device", "memcpy")),
        ("Memset (Device)", ("device", "memset")),
        ("aten::cat", ("host", "cpu_op")),
        ("void cutlass::Kernel2<x>()", ("device", "gemm")),
        ("cutlass_80_wmma", ("device", "gemm")),
        ("[CUDA memcpy HtoD]", ("device", "memcpy")),
        ("CatArrayBatchedCopy (generic)", ("device", "concat")),
        ("void (anonymous namespace)::mystery<float>(int)", ("device", "other")),
        ("mystery_kernel", ("device", "other")),
        ("loop_reduce_fusion.12", ("device", "reduce")),
        ("my_library::step", ("host", "cpu_op")),
        ("nn.Module: Linear_0", ("python", "python")),
        ("Buffer Flush", ("mark", "profiler")),
        ("DistributedDataParallel.forward", ("mark", "annotation")),
        ("mystery", ("mark", "mark")),
    ],
)
def test_names_alone(name: str, expected: tuple[str, str]) -> None:
    assert RULES.of_name(name) == expected


def test_every_family_that_is_a_rule_can_be_reached() -> None:
    """No rule stands behind one that takes all of it: each has a name here, by the tests above."""
    assert set(OTHERS) == {"device", "call", "host", "python", "mark"}
    families = {(rule.side, rule.family) for rule in RULES.rules}
    assert ("device", "attention") in families and len(families) == len(RULES.rules)


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
        ("a = [", "is no file of families"),
        ('[[rule]]\nside = "device"\nfamily = "x"', "a pattern, names or categories"),
        ('[[rule]]\nside = "roof"\nfamily = "x"\npattern = "y"', "'roof' is no side"),
        ('[[rule]]\nside = "device"\nfamily = "x"\npattern = "("', "is no file of families"),
        ('[[rule]]\nside = "device"\nfamily = "x"\npatern = "y"', "a rule has 'patern'"),
        ('[[rule]]\nside = "device"\nfamily = "x"\nnames = "y"', "names and categories are lists of texts"),
        ('[categories]\nx = "roof"', "'roof' is no side"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, word: str) -> None:
    own = tmp_path / "own.toml"
    monkeypatch.setenv(VARIABLE, str(own))
    with pytest.raises(FileFormatError, match="cannot be read"):
        load_families()
    own.write_text(text)
    with pytest.raises(FileFormatError, match=word):
        load_families()


def test_short_names() -> None:
    names = {short_name(name) for name in KERNELS}
    assert len(names) == len(KERNELS)
    assert all(0 < len(name) <= MOST_SHORT for name in names)
    assert short_name("aten::mm") == "aten::mm"
    assert short_name("k" * 10_000) == "k" * (MOST_SHORT - 1) + "…"
    assert short_name("") == ""
