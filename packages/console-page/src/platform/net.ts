// The functions of Node's module `net` that packages of this repository use for addresses. `tools/console-page.mjs` replaces the module by this file.
const octet = /^(?:0|[1-9]\d{0,2})$/;

export function isIPv4(text: string): boolean {
  const octets = text.split('.');
  return octets.length === 4 && octets.every((part) => octet.test(part) && Number(part) < 256);
}

/** Unlike Node's function, rejects addresses with a zone. */
export function isIPv6(text: string): boolean {
  if (!/^[\da-f:.]+$/i.test(text)) return false;
  try {
    return new URL(`http://[${text}]/`).hostname !== '';
  } catch {
    return false;
  }
}
