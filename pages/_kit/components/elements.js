// What the components of this folder share. Text is anybody's and reaches the page as text.

function make(tag, classes = "", text = "", children = []) {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  if (text) element.textContent = text;
  element.append(...children);
  return element;
}

function makeFilled(classes, colour) {
  const mark = make("i", classes);
  mark.style.background = colour;
  return mark;
}

function sendPick(shell, atom) {
  const stamp = `${Date.now()}-${Math.random()}`;
  shell.trigger("picked", { atom, stamp });
  return stamp;
}
