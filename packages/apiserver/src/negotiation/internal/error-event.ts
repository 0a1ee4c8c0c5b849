import type { Status } from '@oarlock/api/status';

/** Returns the ERROR event that ends a failed watch in JSON. */
export function errorEventLine(status: Status): Buffer {
  return Buffer.from(`{"type":"ERROR","object":${JSON.stringify(status)}}\n`);
}
