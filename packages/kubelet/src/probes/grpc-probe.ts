import { connect } from 'node:http2';
import { destroyHttp2 } from '@oarlock/primitives/net/http2-end';
import { formatDialError, failed, succeeded, type AttemptOptions, type ProbeAttemptResult } from './probe-result.ts';

const servingStatus = ['UNKNOWN', 'SERVING', 'NOT_SERVING', 'SERVICE_UNKNOWN'];
const maxResponseBytes = 64 * 1024;

/** Encodes `HealthCheckRequest { service }` as a gRPC frame, without a gRPC library. */
function requestFrame(service: string): Buffer {
  const name = Buffer.from(service, 'utf8');
  const message = name.length === 0 ? Buffer.alloc(0) : Buffer.concat([Buffer.from([0x0a, ...varint(name.length)]), name]);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 127) {
    bytes.push((rest & 127) | 128);
    rest >>>= 7;
  }
  return [...bytes, rest];
}

/** Decodes `HealthCheckResponse.status` (field 1, an enum). A missing field means UNKNOWN. */
function statusOf(response: Buffer): string {
  const at = response.indexOf(0x08, 5);
  return servingStatus[at === 5 ? (response[6] ?? 0) : 0] ?? 'UNKNOWN';
}

/** Probes a gRPC server with the gRPC health checking protocol v1 over cleartext HTTP/2. The status SERVING is a success. */
export function probeGrpc(
  { host, port, service }: { readonly host: string; readonly port: number; readonly service: string },
  { timeoutMs, clock, signal }: AttemptOptions,
): Promise<ProbeAttemptResult> {
  const where = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const session = connect(`http://${where}`);
    let done = false;
    const finish = (end: () => void) => {
      if (done) return;
      done = true;
      timer.cancel();
      signal.removeEventListener('abort', abort);
      destroyHttp2(session);
      end();
    };
    const abort = () => finish(() => reject(signal.reason));
    const fail = (output: string) => finish(() => resolve(failed(output)));
    const timer = clock.after(timeoutMs, () =>
      fail(`timeout: failed to connect service "${where}" within ${timeoutMs / 1000}s: context deadline exceeded`),
    );
    signal.addEventListener('abort', abort, { once: true });
    session.once('error', (error) => fail(`error: ${formatDialError(error, host, port)}`));
    const stream = session.request({
      ':method': 'POST',
      ':path': '/grpc.health.v1.Health/Check',
      'content-type': 'application/grpc',
      te: 'trailers',
      'user-agent': 'kube-probe/1.36',
      'grpc-timeout': `${timeoutMs}m`,
    });
    const chunks: Buffer[] = [];
    let size = 0;
    let code: string | undefined;
    let why = '';
    const trailers = (headers: Readonly<Record<string, unknown>>) => {
      if (headers['grpc-status'] !== undefined) code = String(headers['grpc-status']);
      if (headers['grpc-message'] !== undefined) why = decodeURIComponent(String(headers['grpc-message']));
    };
    stream.on('response', trailers);
    stream.on('trailers', trailers);
    stream.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxResponseBytes) fail('error: health rpc failed: the response is too long');
      else chunks.push(chunk);
    });
    stream.on('error', (error) => fail(`error: health rpc failed: ${formatDialError(error, host, port)}`));
    stream.on('end', () => {
      if (code === '12') fail(`error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ${why}`);
      else if (code !== '0') fail(`error: health rpc failed: rpc error: code = ${code ?? 'Unknown'} desc = ${why}`);
      else {
        const status = statusOf(Buffer.concat(chunks));
        if (status === 'SERVING') finish(() => resolve(succeeded('service healthy')));
        else fail(`service unhealthy (responded with "${status}")`);
      }
    });
    stream.end(requestFrame(service));
  });
}
