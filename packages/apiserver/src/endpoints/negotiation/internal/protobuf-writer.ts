/**
 * The initial size of the scratch buffer to which the protobuf wire format is written, from front to back. The length prefix of a message is
 * inserted when the length is known. All writes are synchronous, so one buffer serves all callers.
 */
const initialSize = 64 * 1024;
/** The size above which the scratch buffer is released after use. */
const keptSize = 4 * 1024 * 1024;
let bytes = Buffer.allocUnsafeSlow(initialSize);
let at = 0;

/** Returns the number of bytes of a value encoded as varint. */
export function sizeOf(value: number): number {
  let size = 1;
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) size += 1;
  return size;
}

/** Runs `write` and returns the written bytes in a new buffer. */
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

/** The length up to which strings are encoded in JavaScript, because a call into native code costs more for short strings. */
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
  // the length that the string has in ASCII, which is nearly always correct
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

/** Begins a message, whose length prefix is inserted later. `size` is the expected size of the prefix. Returns the start position. */
export function openMessage(tag: number, size: number): number {
  writeVarint(tag);
  reserve(size);
  const start = at;
  at += size;
  return start;
}

/** Ends a message and inserts its length prefix. @returns the size of the length prefix */
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

/** Writes a message with a tag; writes nothing if `write` writes nothing. */
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
