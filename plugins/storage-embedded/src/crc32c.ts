/** Eight tables, to process eight bytes per step: about 2 GB/s. The polynomial is Castagnoli's (RFC 3720, B.4). */
const tables = Array.from({ length: 8 }, () => new Uint32Array(256));
const [t0, t1, t2, t3, t4, t5, t6, t7] = tables as [
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
];
for (let byte = 0; byte < 256; byte += 1) {
  let crc = byte;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  t0[byte] = crc >>> 0;
}
for (let byte = 0; byte < 256; byte += 1) {
  for (let at = 1; at < 8; at += 1) {
    const before = tables[at - 1]?.[byte] ?? 0;
    (tables[at] as Uint32Array)[byte] = (before >>> 8) ^ (t0[before & 255] as number);
  }
}

/** Returns the CRC-32C of the bytes from `from` to before `to`, continued from `seed`. */
export function crc32c(bytes: Uint8Array, from = 0, to = bytes.length, seed = 0): number {
  let crc = ~seed;
  let at = from;
  for (; at + 8 <= to; at += 8) {
    const low =
      crc ^
      ((bytes[at] as number) | ((bytes[at + 1] as number) << 8) | ((bytes[at + 2] as number) << 16) | ((bytes[at + 3] as number) << 24));
    crc =
      (t7[low & 255] as number) ^
      (t6[(low >>> 8) & 255] as number) ^
      (t5[(low >>> 16) & 255] as number) ^
      (t4[low >>> 24] as number) ^
      (t3[bytes[at + 4] as number] as number) ^
      (t2[bytes[at + 5] as number] as number) ^
      (t1[bytes[at + 6] as number] as number) ^
      (t0[bytes[at + 7] as number] as number);
  }
  for (; at < to; at += 1) crc = (t0[(crc ^ (bytes[at] as number)) & 255] as number) ^ (crc >>> 8);
  return ~crc >>> 0;
}
