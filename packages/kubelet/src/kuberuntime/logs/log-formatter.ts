import { parseLogRecord } from './cri-log.ts';

export interface LogFormat {
  /** The time before which records are skipped, in milliseconds since the epoch. */
  readonly since: number | undefined;
  readonly timestamps: boolean;
  readonly limitBytes: number | undefined;
  readonly stream: 'All' | 'Stdout' | 'Stderr';
}

const end = Buffer.from('\n');

/** Converts the records of a log file to the text that clients receive. */
export class LogFormatter {
  readonly #format: LogFormat;
  #left: number;
  #middle = false;

  constructor(format: LogFormat) {
    this.#format = format;
    this.#left = format.limitBytes ?? Number.POSITIVE_INFINITY;
  }

  /** True when the output has reached `limitBytes`. */
  get full(): boolean {
    return this.#left <= 0;
  }

  format(lines: readonly Buffer[]): Buffer {
    const { since, timestamps, stream } = this.#format;
    const parts: Buffer[] = [];
    for (const line of lines) {
      const record = parseLogRecord(line);
      if (
        !record ||
        (since !== undefined && Date.parse(record.time) < since) ||
        (stream !== 'All' && stream.toLowerCase() !== record.stream)
      )
        continue;
      if (timestamps && !this.#middle) parts.push(Buffer.from(`${record.time} `));
      parts.push(record.text);
      if (!record.partial) parts.push(end);
      this.#middle = record.partial;
    }
    const bytes = Buffer.concat(parts);
    const limited = bytes.length > this.#left ? bytes.subarray(0, this.#left) : bytes;
    this.#left -= limited.length;
    return limited;
  }
}
