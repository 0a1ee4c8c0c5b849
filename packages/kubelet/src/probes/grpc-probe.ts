import { decodeGrpcMessage, grpcStatus, rpcErrorText } from '@oarlock/grpc/grpc-error';
import { goErrorText, joinHostPort } from '@oarlock/primitives/net/go-error-text';
import { formatDuration } from '@oarlock/api/values/duration';
import { connectHttp2, destroyHttp2 } from '@oarlock/primitives/net/http2';
import { failed, succeeded, type AttemptOptions, type ProbeAttemptResult } from './probe-result.ts';

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

const callFailed = (status: number, message: string) => failed(`error: health rpc probe failed: ${rpcErrorText(status, message)}`);

/** Returns the result of a call that the server has ended. */
function resultOf(code: number, message: string, response: Buffer): ProbeAttemptResult {
  if (code === grpcStatus.UNIMPLEMENTED)
    return failed(`error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ${message}`);
  if (Number.isNaN(code)) return callFailed(grpcStatus.UNKNOWN, message);
  if (code !== grpcStatus.OK) return callFailed(code, message);
  const status = statusOf(response);
  return status === 'SERVING' ? succeeded('service healthy') : failed(`service unhealthy (responded with "${status}")`);
}

const requestHeaders = (timeoutMs: number) => ({
  ':method': 'POST',
  ':path': '/grpc.health.v1.Health/Check',
  'content-type': 'application/grpc',
  te: 'trailers',
  'user-agent': 'kube-probe/1.36',
  'grpc-timeout': `${timeoutMs}m`,
});

/** Probes a gRPC server with the gRPC health checking protocol v1 over cleartext HTTP/2. The status SERVING is a success. */
export function probeGrpc(
  { host, port, service }: { readonly host: string; readonly port: number; readonly service: string },
  { timeoutMs, clock, signal }: AttemptOptions,
): Promise<ProbeAttemptResult> {
  const where = joinHostPort(host, port);
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const session = connectHttp2(`http://${where}`);
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
    const settle = (result: ProbeAttemptResult) => finish(() => resolve(result));
    let connected = false;
    session.once('remoteSettings', () => (connected = true));
    const timer = clock.after(timeoutMs, () => {
      const within = `within ${formatDuration(BigInt(timeoutMs) * 1_000_000n)}`;
      const what = connected ? 'health rpc did not complete' : `failed to connect service "${where}"`;
      settle(failed(`timeout: ${what} ${within}${connected ? '' : ': context deadline exceeded'}`));
    });
    // as upstream, which dials until the timeout: a server that cannot be reached fails the probe when the time is over
    const connectionFailed = (error: Error | undefined) => {
      const cause = error === undefined ? 'EOF' : goErrorText(error);
      if (connected) settle(callFailed(grpcStatus.UNAVAILABLE, `error reading from server: ${cause}`));
    };
    signal.addEventListener('abort', abort, { once: true });
    session.once('error', connectionFailed);
    const stream = session.request(requestHeaders(timeoutMs));
    const chunks: Buffer[] = [];
    let size = 0;
    let code: string | undefined;
    let message = '';
    const trailers = (headers: Readonly<Record<string, unknown>>) => {
      if (headers['grpc-status'] !== undefined) code = String(headers['grpc-status']);
      if (headers['grpc-message'] !== undefined) message = decodeGrpcMessage(String(headers['grpc-message']));
    };
    stream.on('response', trailers);
    stream.on('trailers', trailers);
    stream.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxResponseBytes) settle(callFailed(grpcStatus.RESOURCE_EXHAUSTED, 'the response is too long'));
      else chunks.push(chunk);
    });
    stream.on('error', connectionFailed);
    stream.on('end', () => {
      if (code === undefined) connectionFailed(undefined);
      else settle(resultOf(Number(code), message, Buffer.concat(chunks)));
    });
    stream.end(requestFrame(service));
  });
}
