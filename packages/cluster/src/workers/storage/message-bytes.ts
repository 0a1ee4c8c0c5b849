/** Byte strings shorter than this are copied into the message; longer ones are sent from where they are. */
const copyBelow = 1024;
const initialBytes = 256;

/** Writes the fields of one message. Long byte strings are not copied, so they must not change before they are sent. */
export class MessageWriter {
  readonly #parts: Uint8Array[] = [];
  #buffer = Buffer.allocUnsafe(initialBytes);
  #from = 0;
  #at = 0;
  #finished = 0;

  /** The number of bytes written so far. */
  get length(): number {
    return this.#finished + this.#at - this.#from;
  }

  byte(value: number): this {
    this.#reserve(1);
    this.#buffer[this.#at++] = value;
    return this;
  }

  /** Writes a number, such as a revision, as a double. */
  number(value: number): this {
    this.#reserve(8);
    this.#at = this.#buffer.writeDoubleLE(value, this.#at);
    return this;
  }

  count(value: number): this {
    this.#reserve(4);
    this.#at = this.#buffer.writeUInt32LE(value, this.#at);
    return this;
  }

  /** @throws TypeError if the text is not Unicode, which would be sent as another text */
  text(value: string): this {
    if (/\p{Surrogate}/u.test(value)) throw new TypeError(`not Unicode: ${JSON.stringify(value)}`);
    const bytes = Buffer.byteLength(value);
    this.count(bytes);
    this.#reserve(bytes);
    this.#at += this.#buffer.write(value, this.#at);
    return this;
  }

  bytes(value: Uint8Array): this {
    this.count(value.length);
    if (value.length < copyBelow) {
      this.#reserve(value.length);
      this.#buffer.set(value, this.#at);
      this.#at += value.length;
      return this;
    }
    this.#endPart();
    this.#parts.push(value);
    this.#finished += value.length;
    return this;
  }

  /** Adds all bytes of another message. */
  append(other: MessageWriter): this {
    this.#endPart();
    this.#parts.push(...other.parts());
    this.#finished += other.length;
    return this;
  }

  /** Returns the written bytes in parts. */
  parts(): readonly Uint8Array[] {
    this.#endPart();
    return this.#parts;
  }

  #endPart(): void {
    if (this.#at === this.#from) return;
    this.#parts.push(this.#buffer.subarray(this.#from, this.#at));
    this.#finished += this.#at - this.#from;
    this.#from = this.#at;
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#buffer.length) return;
    this.#endPart();
    this.#buffer = Buffer.allocUnsafe(Math.max(bytes, Math.min(this.#buffer.length * 2, 65_536)));
    this.#from = 0;
    this.#at = 0;
  }
}

/** Reads the fields of one message, in the order in which they were written. @throws RangeError beyond the end of the message */
export class MessageReader {
  readonly #buffer: Buffer;
  #at = 0;

  constructor(buffer: Buffer) {
    this.#buffer = buffer;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#buffer.length;
  }

  byte(): number {
    return this.#buffer.readUInt8(this.#at++);
  }

  number(): number {
    const value = this.#buffer.readDoubleLE(this.#at);
    this.#at += 8;
    return value;
  }

  count(): number {
    const value = this.#buffer.readUInt32LE(this.#at);
    this.#at += 4;
    return value;
  }

  text(): string {
    const from = this.#skip(this.count());
    return this.#buffer.toString('utf8', from, this.#at);
  }

  /** Returns a copy, because a view would keep the whole received chunk in memory. */
  bytes(): Uint8Array {
    const from = this.#skip(this.count());
    return Uint8Array.prototype.slice.call(this.#buffer, from, this.#at);
  }

  #skip(bytes: number): number {
    const from = this.#at;
    if (from + bytes > this.#buffer.length) throw new RangeError(`a field of ${bytes} bytes exceeds the message`);
    this.#at += bytes;
    return from;
  }
}
