/** One record of a container log in CRI format: `TIME STREAM TAG TEXT`. */
export interface LogRecord {
  /** The time as text, in RFC 3339 with nanoseconds. */
  readonly time: string;
  readonly stream: 'stdout' | 'stderr';
  /** True if the log line continues in the next record. */
  readonly partial: boolean;
  readonly text: Buffer;
}

const blank = 0x20;

/** Parses one line without its newline. Returns undefined if the line is not a CRI log record. */
export function parseLogRecord(line: Buffer): LogRecord | undefined {
  const afterTime = line.indexOf(blank);
  const afterStream = line.indexOf(blank, afterTime + 1);
  if (afterTime < 0 || afterStream < 0) return undefined;
  const afterTag = line.indexOf(blank, afterStream + 1);
  const time = line.toString('latin1', 0, afterTime);
  const stream = line.toString('latin1', afterTime + 1, afterStream);
  const tag = line.toString('latin1', afterStream + 1, afterTag < 0 ? line.length : afterTag).split(':')[0];
  if ((stream !== 'stdout' && stream !== 'stderr') || (tag !== 'P' && tag !== 'F')) return undefined;
  return { time, stream, partial: tag === 'P', text: afterTag < 0 ? Buffer.alloc(0) : line.subarray(afterTag + 1) };
}
