import type { Status } from '@oarlock/api/status';

/** Returns the JSON line of the ERROR event that ends a failed watch. */
export function errorEventLine(status: Status): Buffer {
  return Buffer.from(`{"type":"ERROR","object":${JSON.stringify(status)}}\n`);
}
