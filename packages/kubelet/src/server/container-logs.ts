import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { parseTime } from '@oarlock/api/values/time';
import type { Clock } from '@oarlock/primitives/clock';
import type { ContainerStatus } from '@oarlock/spi/runtime';
import { LinkedSignal } from '@oarlock/primitives/concurrency/linked-signal';
import type { PodWorker } from '../pod/worker/pod-worker.ts';
import { findContainer, containerStatusesOf, findContainerStatus } from '../pod-util/pods.ts';
import { HttpError } from './http/http-error.ts';
import { LogFormatter, type LogFormat } from '../kuberuntime/logs/log-formatter.ts';
import { readLogLines } from '../kuberuntime/logs/log-reader.ts';

export interface ContainerLogRequest extends LogFormat {
  readonly follow: boolean;
  readonly previous: boolean;
  readonly tailLines: number | undefined;
}

const truthy = (text: string | null) => text === 'true' || text === '1';

function integerParameter(query: URLSearchParams, name: string, least: number): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const number = Number(text);
  if (!/^-?\d{1,15}$/.test(text) || number < least)
    throw new HttpError(422, `${name}: Invalid value: ${JSON.stringify(text)}: must be greater than or equal to ${least}`);
  return number;
}

/** Parses the query of a log request. @throws HttpError if a parameter is invalid */
export function parseLogRequest(query: URLSearchParams, clock: Clock): ContainerLogRequest {
  const sinceSeconds = integerParameter(query, 'sinceSeconds', 1);
  const text = query.get('sinceTime');
  const sinceTime = text === null ? undefined : parseTime(text);
  if (text !== null && sinceTime === undefined) throw new HttpError(400, `sinceTime: Invalid value: ${JSON.stringify(text)}`);
  if (sinceSeconds !== undefined && sinceTime !== undefined)
    throw new HttpError(422, 'at most one of `sinceTime` or `sinceSeconds` may be specified');
  const stream = query.get('stream') ?? 'All';
  if (stream !== 'All' && stream !== 'Stdout' && stream !== 'Stderr')
    throw new HttpError(422, `stream: Unsupported value: ${JSON.stringify(stream)}`);
  return {
    follow: truthy(query.get('follow')),
    previous: truthy(query.get('previous')),
    timestamps: truthy(query.get('timestamps')),
    stream,
    tailLines: integerParameter(query, 'tailLines', 0),
    limitBytes: integerParameter(query, 'limitBytes', 1),
    since: sinceSeconds === undefined ? sinceTime : clock.now() - sinceSeconds * 1000,
  };
}

/** Returns the container attempt whose log is requested. @throws HttpError with upstream's message if there is no such attempt */
export function loggedContainer({ record }: PodWorker, name: string, previous: boolean): ContainerStatus {
  const { pod, state } = record;
  const specContainer = findContainer(pod, name);
  if (!specContainer) throw new HttpError(404, `container "${name}" not found in pod "${record.name}"`);
  const reported = findContainerStatus(containerStatusesOf(record.status ?? pod.status, specContainer.kind), name);
  const of = (id: string | undefined) => (id === undefined ? undefined : state.container(id.slice(id.indexOf('://') + 3)));
  const [latest] = state.containerAttempts(name);
  const last = of(reported?.lastState?.terminated?.containerID);
  const where = `container "${name}" in pod "${record.name}"`;
  if (previous) {
    if (last) return last;
    throw new HttpError(400, `previous terminated ${where} not found`);
  }
  if (latest && latest.state !== 'CREATED') return latest;
  if (last) return last;
  const reason = reported?.state?.waiting?.reason;
  if (reason === 'ErrImagePull') throw new HttpError(400, `${where} is waiting to start: image can't be pulled`);
  if (reason === 'ImagePullBackOff') throw new HttpError(400, `${where} is waiting to start: trying and failing to pull image`);
  throw new HttpError(400, reason === undefined ? `${where} is waiting to start - no logs yet` : `${where} is waiting to start: ${reason}`);
}

/** The container whose log a client requested, and the options of the request. */
interface ContainerLogSource {
  readonly worker: PodWorker;
  /** The name of the container. */
  readonly container: string;
  readonly logRequest: ContainerLogRequest;
}

interface LogExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Aborts when the server stops. */
  readonly stopped: AbortSignal;
}

/** Sends a container's log. With `follow`, continues until the container ends. */
export async function serveContainerLogs(
  { worker, container, logRequest }: ContainerLogSource,
  { request, response, stopped }: LogExchange,
): Promise<void> {
  const status = loggedContainer(worker, container, logRequest.previous);
  const { runtime } = worker.record;
  const isSimulated = runtime?.hollow === true && status.logPath === '';
  const gone = new LinkedSignal(stopped);
  const leave = () => gone.abort();
  request.once('close', leave);
  response.once('close', leave);
  const { signal } = gone;
  response.writeHead(200, { 'Content-Type': 'text/plain', 'Transfer-Encoding': 'chunked' });
  response.flushHeaders();
  const formatter = new LogFormatter(logRequest);
  try {
    if (!isSimulated && !logRequest.follow && !(await exists(status.logPath))) response.write(missingLogText(status.logPath));
    const lines = isSimulated
      ? simulatedLines(worker, { status, tailLines: logRequest.tailLines, signal })
      : readLogLines({
          path: status.logPath,
          tailLines: logRequest.tailLines,
          follow: logRequest.follow,
          signal,
          ended: worker.waitForContainerExit(status.id, signal),
        });
    for await (const some of lines) {
      const bytes = formatter.format(some);
      if (bytes.length > 0 && !response.write(bytes)) await once(response, 'drain', { signal });
      if (formatter.full) break;
    }
    response.end();
  } catch (error) {
    // abort the chunked response, so that the client does not take it for complete
    response.destroy();
    if (!signal.aborted) throw error;
  } finally {
    gone.release();
  }
}

/** The answer for a log that does not exist, as upstream: an empty one would mean that the container wrote nothing. */
const missingLogText = (path: string): string =>
  `failed to try resolving symlinks in path ${JSON.stringify(path)}: lstat ${path}: no such file or directory`;

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false;
      throw error;
    },
  );

/** Yields the log lines of a container on a simulated runtime, which has no log files. Works only while the container runs. */
async function* simulatedLines(
  { record }: PodWorker,
  { status, tailLines, signal }: { readonly status: ContainerStatus; readonly tailLines: number | undefined; readonly signal: AbortSignal },
): AsyncGenerator<readonly Buffer[]> {
  const driver = record.runtime?.pleg.driver;
  if (!driver || status.state !== 'RUNNING') return;
  const { stdout } = await driver.execSync(status.id, ['oarlock.dev/logs'], 10, { signal });
  const lines = stdout
    .toString('utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => Buffer.from(line));
  yield tailLines === undefined ? lines : lines.slice(Math.max(0, lines.length - tailLines));
}
