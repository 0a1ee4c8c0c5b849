import type { Status } from '@oarlock/api/status';

/** The last line of a watch in JSON that fails. */
export function errorEventLine(status: Status): Buffer {
  return Buffer.from(`{"type":"ERROR","object":${JSON.stringify(status)}}\n`);
}
