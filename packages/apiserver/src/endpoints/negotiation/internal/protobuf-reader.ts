import { badRequest } from '@oarlock/api/status';
import { tooManyValues } from '../../request/body-values.ts';

export const malformed = (reason: string) => badRequest(`the object provided is unrecognized: protobuf: ${reason}`);

/** The number of fields that the body may still have. */
export interface FieldBudget {
  left: number;
}

/** A reader of the protobuf wire format in a range of a buffer. */
export class Reader {
  readonly bytes: Buffer;
  at: number;
  readonly end: number;
  readonly fields: FieldBudget;
  constructor(bytes: Buffer, { at, end, fields }: { readonly at: number; readonly end: number; readonly fields: FieldBudget }) {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
    this.fields = fields;
  }

  /** Returns a reader of an empty range. */
  empty(): Reader {
    return new Reader(this.bytes, { at: 0, end: 0, fields: this.fields });
  }

  /** Counts a field of the body. @throws StatusError RequestEntityTooLarge if the body has too many */
  countField(): void {
    if (--this.fields.left < 0) throw tooManyValues();
  }

  /** Reads a signed 64-bit varint. A value that a double cannot represent is rounded. */
  varint(): number {
    const { bytes, end } = this;
    let low = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      if (this.at >= end) throw malformed('unterminated varint');
      const byte = bytes[this.at++] as number;
      low |= (byte & 0x7f) << shift;
      if (byte < 0x80) return low;
    }
    let value = BigInt(low);
    for (let shift = 28n; shift < 70n; shift += 7n) {
      if (this.at >= end) break;
      const byte = bytes[this.at++] as number;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return Number(BigInt.asIntN(64, value));
    }
    throw malformed('unterminated varint');
  }

  /** Reads a length or tag, which fits into 32 bits. */
  small(): number {
    const value = this.varint();
    if (value < 0 || value > 0x7fff_ffff) throw malformed('length out of range');
    return value;
  }

  part(): Reader {
    const length = this.small();
    return new Reader(this.bytes, { at: this.#advance(length), end: this.at, fields: this.fields });
  }
  text(encoding: 'utf8' | 'base64'): string {
    const length = this.small();
    const from = this.#advance(length);
    return length === 0 ? '' : this.bytes.toString(encoding, from, this.at);
  }
  double(): number {
    return this.bytes.readDoubleLE(this.#advance(8));
  }

  #advance(length: number): number {
    const from = this.at;
    if (from + length > this.end) throw malformed('unexpected end of data');
    this.at = from + length;
    return from;
  }

  skip(wire: number): void {
    switch (wire) {
      case 0:
        this.varint();
        return;
      case 1:
        this.#advance(8);
        return;
      case 2:
        this.#advance(this.small());
        return;
      case 5:
        this.#advance(4);
        return;
      default:
        throw malformed(`unknown wire type ${wire}`);
    }
  }
}
