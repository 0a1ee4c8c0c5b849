/**
 * The bytes of protobuf. One scratch buffer is written from front to back; the length of a message is put before it when it is known.
 * All of it is synchronous, so that one buffer serves everybody.
 */
const initialSize = 64 * 1024;
/** A scratch buffer that grew beyond this is not kept. */
const keptSize = 4 * 1024 * 1024;
let bytes = Buffer.allocUnsafeSlow(initialSize);
let at = 0;

/** Bytes that a varint takes. */
export function sizeOf(value: number): number {
  let size = 1;
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) size += 1;
  return size;
}

/** What is written meanwhile, as a buffer of its own. */
export function writeMessage(write: () => void): Buffer {
  at = 0;
  try {
    write();
    return Buffer.from(bytes.subarray(0, at));
  } finally {
    if (bytes.length > keptSize) bytes = Buffer.allocUnsafeSlow(initialSize);
  }
}

function reserve(more: number): void {
  if (at + more <= bytes.length) return;
  const larger = Buffer.allocUnsafeSlow(Math.max(bytes.length * 2, at + more));
  bytes.copy(larger, 0, 0, at);
  bytes = larger;
}

export function writeByte(value: number): void {
  reserve(1);
  bytes[at++] = value;
}

export function writeVarint(value: number): void {
  reserve(10);
  if (value < 0 || value > 0x7fff_ffff) {
    for (let rest = BigInt.asUintN(64, BigInt(value)); ; rest >>= 7n) {
      const low = Number(rest & 0x7fn);
      if (rest < 128n) {
        bytes[at++] = low;
        return;
      }
      bytes[at++] = low | 0x80;
    }
  }
  let rest = value;
  for (; rest > 127; rest >>>= 7) bytes[at++] = (rest & 0x7f) | 0x80;
  bytes[at++] = rest;
}

/** Short texts, which most are, are written by hand: a call into node costs more. */
const shortText = 48;

export function writeString(value: string): void {
  const { length } = value;
  reserve(length * 3 + 10);
  if (length < shortText) {
    const start = at;
    let end = at + 1;
    let i = 0;
    for (; i < length; i += 1) {
      const code = value.charCodeAt(i);
      if (code > 127) break;
      bytes[end++] = code;
    }
    if (i === length) {
      bytes[start] = length;
      at = end;
      return;
    }
  }
  // as long as it would be in ASCII, which is nearly always right
  const size = sizeOf(length);
  const start = at;
  at += size;
  at += bytes.write(value, at, 'utf8');
  finish(start, size);
}

export function writeBase64(value: string): void {
  writeVarint(Buffer.byteLength(value, 'base64'));
  reserve(value.length);
  at += bytes.write(value, at, 'base64');
}

/** Begins a part whose length follows when it is known. `size` is a guess at what the length will take. */
export function openMessage(tag: number, size: number): number {
  writeVarint(tag);
  reserve(size);
  const start = at;
  at += size;
  return start;
}

/** @returns what the length took */
export function closeMessage(start: number, size: number): number {
  return finish(start, size);
}

function finish(start: number, size: number): number {
  const length = at - start - size;
  const needed = sizeOf(length);
  if (needed !== size) {
    reserve(needed);
    bytes.copyWithin(start + needed, start + size, at);
    at += needed - size;
  }
  const end = at;
  at = start;
  writeVarint(length);
  at = end;
  return needed;
}

/** A part that is left out where nothing is written into it. */
export function writeOptional(tag: number, write: () => void): void {
  const before = at;
  const start = openMessage(tag, 1);
  write();
  if (at === start + 1) at = before;
  else closeMessage(start, 1);
}

export function writeBytes(part: Buffer): void {
  reserve(part.length);
  at += part.copy(bytes, at);
}

export function writeDouble(value: number): void {
  reserve(8);
  at = bytes.writeDoubleLE(value, at);
}
