import { connect } from 'node:http2';
import { goErrorText, joinHostPort } from '@oarlock/primitives/net/go-error-text';
import { formatDuration } from '@oarlock/api/values/duration';
import { destroyHttp2 } from '@oarlock/primitives/net/http2-end';
import { failed, succeeded, type AttemptOptions, type ProbeAttemptResult } from './probe-result.ts';

const servingStatus = ['UNKNOWN', 'SERVING', 'NOT_SERVING', 'SERVICE_UNKNOWN'];
/** The names of gRPC's status codes, as Go prints them. */
const codeNames = [
  ...['OK', 'Canceled', 'Unknown', 'InvalidArgument', 'DeadlineExceeded', 'NotFound', 'AlreadyExists', 'PermissionDenied'],
  ...['ResourceExhausted', 'FailedPrecondition', 'Aborted', 'OutOfRange', 'Unimplemented', 'Internal', 'Unavailable', 'DataLoss'],
  'Unauthenticated',
];
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

const rpcError = (status: string, why: string): string => `error: health rpc probe failed: rpc error: code = ${status} desc = ${why}`;

/** Returns the result of a call that the server has ended. */
function resultOf(code: number, why: string, response: Buffer): ProbeAttemptResult {
  if (code === 12) return failed(`error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ${why}`);
  if (code !== 0) return failed(rpcError(codeNames[code] ?? 'Unknown', why));
  const status = statusOf(response);
  return status === 'SERVING' ? succeeded('service healthy') : failed(`service unhealthy (responded with "${status}")`);
}

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
    let connected = false;
    session.once('remoteSettings', () => (connected = true));
    const timer = clock.after(timeoutMs, () => {
      const within = `within ${formatDuration(BigInt(timeoutMs) * 1_000_000n)}`;
      if (connected) fail(`timeout: health rpc did not complete ${within}`);
      else fail(`timeout: failed to connect service "${where}" ${within}: context deadline exceeded`);
    });
    // as upstream, which dials until the timeout: a server that cannot be reached fails the probe when the time is over
    const connectionFailed = (error: Error | undefined) => {
      if (connected) fail(rpcError('Unavailable', `error reading from server: ${error === undefined ? 'EOF' : goErrorText(error)}`));
    };
    signal.addEventListener('abort', abort, { once: true });
    session.once('error', connectionFailed);
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
      if (size > maxResponseBytes) fail(rpcError('ResourceExhausted', 'the response is too long'));
      else chunks.push(chunk);
    });
    stream.on('error', connectionFailed);
    stream.on('end', () => {
      if (code === undefined) connectionFailed(undefined);
      else finish(() => resolve(resultOf(Number(code), why, Buffer.concat(chunks))));
    });
    stream.end(requestFrame(service));
  });
}
