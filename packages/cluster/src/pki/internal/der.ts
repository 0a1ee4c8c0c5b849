/** A DER encoding (X.690, 10), in which ASN.1 values have exactly one encoding. */
export type Der = Buffer;

const tags = {
  integer: 0x02,
  bits: 0x03,
  octets: 0x04,
  null: 0x05,
  oid: 0x06,
  utf8: 0x0c,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
};

/** Encodes a value with any tag. */
export function der(tag: number, ...parts: readonly Uint8Array[]): Der {
  const content = Buffer.concat(parts);
  if (content.length < 0x80) return Buffer.concat([Buffer.from([tag, content.length]), content]);
  const hex = content.length.toString(16);
  const length = Buffer.from(hex.padStart(hex.length + (hex.length % 2), '0'), 'hex');
  return Buffer.concat([Buffer.from([tag, 0x80 | length.length]), length, content]);
}
export const sequence = (...parts: readonly Uint8Array[]): Der => der(tags.sequence, ...parts);
export const set = (...parts: readonly Uint8Array[]): Der => der(tags.set, ...parts);
export const octets = (...parts: readonly Uint8Array[]): Der => der(tags.octets, ...parts);
export const utf8 = (text: string): Der => der(tags.utf8, Buffer.from(text));
export const none = (): Der => der(tags.null);
/** A BIT STRING whose last byte has `unused` unused bits. */
export const bits = (bytes: Uint8Array, unused = 0): Der => der(tags.bits, Buffer.from([unused]), bytes);
/** A positive INTEGER of any size from big-endian bytes. */
export const integer = (bytes: Uint8Array): Der => der(tags.integer, ...((bytes[0] ?? 0) & 0x80 ? [Buffer.from([0])] : []), bytes);
export const yes = (): Der => der(0x01, Buffer.from([0xff]));

/** Encodes an OBJECT IDENTIFIER from its dotted form, such as `1.2.840.10045.4.3.2`. */
export function oid(dotted: string): Der {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  const bytes = [first * 40 + second, ...rest].flatMap((arc) => {
    const groups = [arc & 0x7f];
    for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128)) groups.unshift((left & 0x7f) | 0x80);
    return groups;
  });
  return der(tags.oid, Buffer.from(bytes));
}

/** Encodes a date: as UTCTime until 2049, as GeneralizedTime from 2050 on (RFC 5280, 4.1.2.5). */
export function time(date: Date): Der {
  const digits = date
    .toISOString()
    .replace(/\.\d+Z$/, 'Z')
    .replaceAll(/[-:T]/g, '');
  return date.getUTCFullYear() < 2050 ? der(tags.utcTime, Buffer.from(digits.slice(2))) : der(tags.generalizedTime, Buffer.from(digits));
}

/** Returns the encoded values that a constructed value contains. @throws RangeError if a contained value exceeds the constructed value */
export function within(value: Uint8Array): readonly Der[] {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  const parts: Der[] = [];
  const { from, to } = contentOf(bytes, 0);
  for (let at = from; at < to; ) {
    const { to: end } = contentOf(bytes, at);
    if (end > to) throw new RangeError(`a value at byte ${at} ends after the one that it is in`);
    parts.push(bytes.subarray(at, end));
    at = end;
  }
  return parts;
}

/** Returns the content of a value without its tag and length. */
export function content(value: Der): Der {
  const { from, to } = contentOf(value, 0);
  return value.subarray(from, to);
}

function contentOf(bytes: Buffer, at: number): { readonly from: number; readonly to: number } {
  const short = bytes.readUInt8(at + 1);
  if (short < 0x80) return { from: at + 2, to: at + 2 + short };
  const size = short & 0x7f;
  const from = at + 2 + size;
  return { from, to: from + bytes.readUIntBE(at + 2, size) };
}
