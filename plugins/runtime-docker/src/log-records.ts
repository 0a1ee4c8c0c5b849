import { FrameReader, type OutputFrame } from './output-frames.ts';

/** What a container wrote, up to a newline or to as much as the engine keeps in one piece. */
export interface LogRecord {
  /** To the nanosecond and always as long: `2026-01-02T03:04:05.000000006Z`. Later ones sort after earlier ones. */
  readonly time: string;
  readonly stream: OutputFrame['stream'];
  /** Ends in a newline when the line does. */
  readonly text: Buffer;
}

/** The length of a piece of a line that is longer. */
const longestPiece = 16 * 1024;
const timeBytes = '2026-01-02T03:04:05.000000006Z'.length;
const newline = 0x0a;

/** Cuts what `GET /containers/ID/logs?timestamps=1` sends into records. */
export class LogReader {
  readonly #frames: FrameReader | undefined;
  #kept: Buffer = Buffer.alloc(0);

  /** With a terminal there are no frames: only newlines and lengths tell where a record ends. */
  constructor(tty: boolean) {
    this.#frames = tty ? undefined : new FrameReader(true);
  }

  *push(chunk: Buffer): Generator<LogRecord> {
    if (this.#frames) {
      for (const { stream, payload } of this.#frames.push(chunk)) yield record(stream, payload);
      return;
    }
    this.#kept = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk]);
    for (;;) {
      const longest = this.#kept.subarray(0, timeBytes + 1 + longestPiece);
      const found = longest.indexOf(newline, timeBytes + 1);
      const end = found >= 0 ? found + 1 : longest.length === timeBytes + 1 + longestPiece ? longest.length : 0;
      if (end === 0) return;
      yield record('stdout', this.#kept.subarray(0, end));
      this.#kept = this.#kept.subarray(end);
    }
  }

  /** What had no newline at the end. */
  *end(): Generator<LogRecord> {
    if (this.#frames === undefined && this.#kept.length > timeBytes) yield record('stdout', this.#kept);
    this.#kept = Buffer.alloc(0);
  }
}

function record(stream: LogRecord['stream'], bytes: Buffer): LogRecord {
  return { stream, time: bytes.toString('latin1', 0, timeBytes), text: bytes.subarray(timeBytes + 1) };
}

const end = Buffer.from('\n');

/** A line of a CRI log: time, stream, tag, text. */
export function criLine({ time, stream, text }: LogRecord): readonly Buffer[] {
  const full = text.at(-1) === newline;
  return [Buffer.from(`${time} ${stream} ${full ? 'F' : 'P'} `), text, ...(full ? [] : [end])];
}

/** How far a log has been copied: the time of the last record, and how many have that time. */
export interface LogPosition {
  readonly time: string;
  readonly count: number;
}

/** As the engine's `since`, which takes what is not earlier. */
export function sinceOf({ time }: LogPosition): string {
  return `${Math.floor(Date.parse(time) / 1000)}.${time.slice(20, 29)}`;
}

/** Passes over what was copied before. */
export class LogCursor {
  #position: LogPosition | undefined;
  #skip = 0;

  constructor(position: LogPosition | undefined) {
    this.#position = position;
  }
  get position(): LogPosition | undefined {
    return this.#position;
  }
  /** The next pass begins at the position again. */
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
