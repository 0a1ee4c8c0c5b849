// below U+D800 the units of UTF-16 sort as the bytes of UTF-8 do
const unusual = /[\ud800-\uffff]/;
const loneSurrogate = /\p{Surrogate}/u;

/**
 * The text with its UTF-16 units renumbered, so that `<` compares as the bytes of UTF-8 would: surrogates, which stand for U+10000 and
 * above, move behind U+E000 to U+FFFF. Units are replaced one by one, so a prefix stays a prefix.
 * @throws TypeError for half of a surrogate pair, which has no bytes in UTF-8
 */
export function sortKey(text: string): string {
  if (!unusual.test(text)) return text;
  if (loneSurrogate.test(text)) throw new TypeError(`not Unicode: ${JSON.stringify(text)}`);
  const units = new Uint16Array(text.length);
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    units[at] = unit < 0xd800 ? unit : unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
  }
  let result = '';
  for (let at = 0; at < units.length; at += 4096) result += String.fromCharCode(...units.subarray(at, at + 4096));
  return result;
}

/** The first sort key behind all that start with `prefix`; undefined when nothing can come behind them. */
export function behind(prefix: string): string | undefined {
  let length = prefix.length;
  while (length > 0 && prefix.charCodeAt(length - 1) === 0xffff) length -= 1;
  return length === 0 ? undefined : prefix.slice(0, length - 1) + String.fromCharCode(prefix.charCodeAt(length - 1) + 1);
}
