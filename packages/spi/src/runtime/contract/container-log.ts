/** One line of a container's log file. */
export interface LogRecord {
  readonly time: number;
  readonly stream: 'stdout' | 'stderr';
  readonly full: boolean;
  readonly text: string;
}

const logLine = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([PF](?::\S*)?) (.*)$/s;

/** Parses a container log in CRI format. @throws Error at the first invalid line */
export function parseLog(bytes: string): LogRecord[] {
  if (bytes === '') return [];
  if (!bytes.endsWith('\n')) throw new Error(`the log ends in the middle of a line: ${JSON.stringify(bytes.slice(-200))}`);
  return bytes
    .slice(0, -1)
    .split('\n')
    .map((line) => {
      const match = logLine.exec(line);
      if (!match) throw new Error(`not a line of a CRI log: ${JSON.stringify(line.slice(0, 200))}`);
      return {
        time: Date.parse(match[1] ?? ''),
        stream: match[2] as 'stdout' | 'stderr',
        full: match[3]?.startsWith('F') ?? false,
        text: match[4] ?? '',
      };
    });
}

/** Joins partial log records, and returns the text that a container wrote to one stream. */
export function joinLog(records: readonly LogRecord[], stream: 'stdout' | 'stderr'): string {
  return records
    .filter((record) => record.stream === stream)
    .map((record) => record.text + (record.full ? '\n' : ''))
    .join('');
}
