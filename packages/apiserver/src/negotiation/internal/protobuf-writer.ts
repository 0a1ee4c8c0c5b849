/**
 * Writes the protobuf wire format. One scratch buffer is filled from front to back; the length prefix of a message is inserted when it is
 * known. All writes are synchronous, so one buffer serves all callers.
 */
const initialSize = 64 * 1024;
/** A scratch buffer that grew beyond this size is released. */
const keptSize = 4 * 1024 * 1024;
let bytes = Buffer.allocUnsafeSlow(initialSize);
let at = 0;

/** Returns the number of bytes of a varint. */
export function sizeOf(value: number): number {
  let size = 1;
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) size += 1;
  return size;
}

/** Returns the bytes that `write` writes, in a buffer of their own. */
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

/** Short strings are encoded in JavaScript: a call into native code costs more. */
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

/** Begins a message whose length prefix follows later. `size` is the expected size of the prefix. */
export function openMessage(tag: number, size: number): number {
  writeVarint(tag);
  reserve(size);
  const start = at;
  at += size;
  return start;
}

/** Ends a message. @returns the size of its length prefix */
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

/** Writes a message, or nothing if `write` writes nothing. */
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
