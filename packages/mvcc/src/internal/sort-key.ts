// below U+D800, UTF-16 units sort like UTF-8 bytes
const unusual = /[\ud800-\uffff]/;
const loneSurrogate = /\p{Surrogate}/u;

/**
 * Maps text to a key that JavaScript's `<` orders like the UTF-8 bytes of the text: surrogates, which encode U+10000 and above, are moved
 * behind U+E000 to U+FFFF. Maps each UTF-16 code unit separately, so prefixes are preserved.
 * @throws TypeError if the text has an unpaired surrogate, which has no UTF-8 encoding
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

/** Returns the first sort key after all keys that start with `prefix`; undefined if no such sort key exists. */
export function endOfPrefix(prefix: string): string | undefined {
  let length = prefix.length;
  while (length > 0 && prefix.charCodeAt(length - 1) === 0xffff) length -= 1;
  return length === 0 ? undefined : prefix.slice(0, length - 1) + String.fromCharCode(prefix.charCodeAt(length - 1) + 1);
}
