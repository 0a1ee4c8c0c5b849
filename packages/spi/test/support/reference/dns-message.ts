// The parts of RFC 1035, RFC 2782 and RFC 3596 that A, AAAA, SRV and CNAME queries need.
export const types = { A: 1, CNAME: 5, SOA: 6, AAAA: 28, SRV: 33 } as const;
export const codes = { ok: 0, formatError: 1, serverFailure: 2, noSuchName: 3 } as const;

export interface Question {
  readonly id: number;
  readonly name: string;
  readonly type: number;
  /** The question section, to repeat in the response. */
  readonly raw: Buffer;
  readonly recursionDesired: boolean;
}
export interface Answer {
  readonly type: number;
  readonly data: Buffer;
}

/** Parses a query. Returns undefined if the message is not a query with one question. */
export function parseQuestion(message: Buffer): Question | undefined {
  if (message.length < 17 || (message.readUInt16BE(2) & 0xf800) !== 0 || message.readUInt16BE(4) !== 1) return undefined;
  const labels: string[] = [];
  let at = 12;
  for (;;) {
    const length = message[at];
    if (length === undefined || length > 63 || labels.join('.').length > 253) return undefined;
    at += 1;
    if (length === 0) break;
    labels.push(message.toString('latin1', at, at + length));
    at += length;
  }
  if (at + 4 > message.length) return undefined;
  return {
    id: message.readUInt16BE(0),
    name: labels.join('.'),
    type: message.readUInt16BE(at),
    raw: message.subarray(12, at + 4),
    recursionDesired: (message.readUInt16BE(2) & 0x0100) !== 0,
  };
}

export function encodeName(name: string): Buffer {
  const labels = name.split('.').filter((label) => label !== '');
  return Buffer.concat([
    ...labels.map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label, 'latin1')])),
    Buffer.alloc(1),
  ]);
}

/** Encodes a response of at most `limit` bytes. If the records do not fit, they are omitted and the TC bit is set. */
export function encodeAnswer(question: Question, code: number, answers: readonly Answer[], limit: number): Buffer {
  const records = answers.map(({ type, data }) => {
    const head = Buffer.alloc(12);
    head.writeUInt16BE(0xc00c, 0); // the name of the question
    head.writeUInt16BE(type, 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt32BE(5, 6);
    head.writeUInt16BE(data.length, 10);
    return Buffer.concat([head, data]);
  });
  const whole = 12 + question.raw.length + records.reduce((sum, record) => sum + record.length, 0);
  const cut = whole > limit;
  const header = Buffer.alloc(12);
  header.writeUInt16BE(question.id, 0);
  header.writeUInt16BE(0x8480 | (cut ? 0x0200 : 0) | (question.recursionDesired ? 0x0100 : 0) | code, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(cut ? 0 : records.length, 6);
  return Buffer.concat([header, question.raw, ...(cut ? [] : records)]);
}
