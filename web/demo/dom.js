// Elements in one expression. In: a tag, properties, children. Out: the element. Text is always set as text, never as markup.

export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'class') element.className = value;
    else if (name in element && !name.includes('-') && name !== 'for' && name !== 'list') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

let count = 0;

/** A label and its control, tied together. */
export function field(label, control, hint) {
  control.id ||= `field-${count++}`;
  const parts = [el('label', { for: control.id }, label), control];
  if (hint) {
    hint.id ||= `${control.id}-hint`;
    control.setAttribute('aria-describedby', hint.id);
    parts.push(hint);
  }
  return el('div', { class: 'field' }, parts);
}

/** A button. */
export const button = (text, onclick, more = {}) => el('button', { type: 'button', onclick, ...more }, text);
