import { FrameReader, type OutputFrame } from './output-frames.ts';

/** One record of a container's output, which ends at a newline or at the engine's maximum record size. */
export interface LogRecord {
  /** The time in RFC 3339 with exactly nine fractional digits (`2026-01-02T03:04:05.000000006Z`), so that records sort by time as text. */
  readonly time: string;
  readonly stream: OutputFrame['stream'];
  /** The text of the record, which ends with a newline if the record completes a line. */
  readonly text: Buffer;
}

/** The record size into which the engine splits longer lines. */
const maxRecordBytes = 16 * 1024;
const timeBytes = '2026-01-02T03:04:05.000000006Z'.length;
const newline = 0x0a;

/** Splits the body of `GET /containers/ID/logs?timestamps=1` into records. */
export class LogReader {
  readonly #frames: FrameReader | undefined;
  #pending: Buffer = Buffer.alloc(0);

  /** @param tty true if the body has no frames, as with a terminal; a record then ends at a newline or at `maxRecordBytes` */
  constructor(tty: boolean) {
    this.#frames = tty ? undefined : new FrameReader(true);
  }

  *push(chunk: Buffer): Generator<LogRecord> {
    if (this.#frames) {
      for (const { stream, payload } of this.#frames.push(chunk)) yield record(stream, payload);
      return;
    }
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    for (;;) {
      const longest = this.#pending.subarray(0, timeBytes + 1 + maxRecordBytes);
      const found = longest.indexOf(newline, timeBytes + 1);
      const end = found >= 0 ? found + 1 : longest.length === timeBytes + 1 + maxRecordBytes ? longest.length : 0;
      if (end === 0) return;
      yield record('stdout', this.#pending.subarray(0, end));
      this.#pending = this.#pending.subarray(end);
    }
  }

  /** Yields the last record if it does not end with a newline. */
  *end(): Generator<LogRecord> {
    if (this.#frames === undefined && this.#pending.length > timeBytes) yield record('stdout', this.#pending);
    this.#pending = Buffer.alloc(0);
  }
}

function record(stream: LogRecord['stream'], bytes: Buffer): LogRecord {
  return { stream, time: bytes.toString('latin1', 0, timeBytes), text: bytes.subarray(timeBytes + 1) };
}

const end = Buffer.from('\n');

/** Returns the lines of a CRI log for a record, each with time, stream, tag and text. */
export function criLine({ time, stream, text }: LogRecord): readonly Buffer[] {
  const full = text.at(-1) === newline;
  return [Buffer.from(`${time} ${stream} ${full ? 'F' : 'P'} `), text, ...(full ? [] : [end])];
}

/** The position up to which a log has been copied: the time of the last record, and the number of records with that time. */
export interface LogPosition {
  readonly time: string;
  readonly count: number;
}

/** Returns the engine's query parameter `since` for a position, which includes the records of the position's time. */
export function sinceOf({ time }: LogPosition): string {
  return `${Math.floor(Date.parse(time) / 1000)}.${time.slice(20, 29)}`;
}

/** Skips records that an earlier pass has copied. */
export class LogCursor {
  #position: LogPosition | undefined;
  #skip = 0;

  constructor(position: LogPosition | undefined) {
    this.#position = position;
  }
  get position(): LogPosition | undefined {
    return this.#position;
  }
  /** Restarts at the position of the last copied record, for the next pass. */
  rewind(): void {
    this.#skip = this.#position?.count ?? 0;
  }
  isNew({ time }: LogRecord): boolean {
    const known = this.#position;
    if (known !== undefined && time < known.time) return false;
    if (known !== undefined && time === known.time && this.#skip > 0) {
      this.#skip -= 1;
      return false;
    }
    this.#position = { time, count: known !== undefined && known.time === time ? known.count + 1 : 1 };
    return true;
  }
}
