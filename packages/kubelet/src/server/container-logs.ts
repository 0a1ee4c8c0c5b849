import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { parseTime } from '@oarlock/api/time';
import type { Clock } from '@oarlock/kernel/clock';
import type { ContainerStatus } from '@oarlock/spi/runtime';
import { LinkedSignal } from '../linked-signal.ts';
import type { PodWorker } from '../pod-worker.ts';
import { findContainer, statusesOf, statusOf } from '../pods.ts';
import { HttpProblem } from './http-problem.ts';
import { LogFormatter, type LogFormat } from './log-format.ts';
import { logLines } from './log-source.ts';

export interface LogRequest extends LogFormat {
  readonly follow: boolean;
  readonly previous: boolean;
  readonly tailLines: number | undefined;
}

const truthy = (text: string | null) => text === 'true' || text === '1';

function whole(query: URLSearchParams, name: string, least: number): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const number = Number(text);
  if (!/^-?\d{1,15}$/.test(text) || number < least)
    throw new HttpProblem(422, `${name}: Invalid value: ${JSON.stringify(text)}: must be greater than or equal to ${least}`);
  return number;
}

/** @throws HttpProblem for what cannot be asked */
export function parseLogRequest(query: URLSearchParams, clock: Clock): LogRequest {
  const sinceSeconds = whole(query, 'sinceSeconds', 1);
  const text = query.get('sinceTime');
  const sinceTime = text === null ? undefined : parseTime(text);
  if (text !== null && sinceTime === undefined) throw new HttpProblem(400, `sinceTime: Invalid value: ${JSON.stringify(text)}`);
  if (sinceSeconds !== undefined && sinceTime !== undefined)
    throw new HttpProblem(422, 'at most one of `sinceTime` or `sinceSeconds` may be specified');
  const stream = query.get('stream') ?? 'All';
  if (stream !== 'All' && stream !== 'Stdout' && stream !== 'Stderr')
    throw new HttpProblem(422, `stream: Unsupported value: ${JSON.stringify(stream)}`);
  return {
    follow: truthy(query.get('follow')),
    previous: truthy(query.get('previous')),
    timestamps: truthy(query.get('timestamps')),
    stream,
    tailLines: whole(query, 'tailLines', 0),
    limitBytes: whole(query, 'limitBytes', 1),
    since: sinceSeconds === undefined ? sinceTime : clock.now() - sinceSeconds * 1000,
  };
}

/** Which of the container's attempts is meant. @throws HttpProblem with upstream's words when there is none */
export function loggedContainer({ record }: PodWorker, name: string, previous: boolean): ContainerStatus {
  const { pod, state } = record;
  const placed = findContainer(pod, name);
  if (!placed) throw new HttpProblem(404, `container "${name}" not found in pod "${record.name}"`);
  const reported = statusOf(statusesOf(record.status ?? pod.status, placed.kind), name);
  const of = (id: string | undefined) => (id === undefined ? undefined : state.container(id.slice(id.indexOf('://') + 3)));
  const [latest] = state.attempts(name);
  const last = of(reported?.lastState?.terminated?.containerID);
  const where = `container "${name}" in pod "${record.name}"`;
  if (previous) {
    if (last) return last;
    throw new HttpProblem(400, `previous terminated ${where} not found`);
  }
  if (latest && latest.state !== 'CREATED') return latest;
  if (last) return last;
  const reason = reported?.state?.waiting?.reason;
  if (reason === 'ErrImagePull') throw new HttpProblem(400, `${where} is waiting to start: image can't be pulled`);
  if (reason === 'ImagePullBackOff') throw new HttpProblem(400, `${where} is waiting to start: trying and failing to pull image`);
  throw new HttpProblem(
    400,
    reason === undefined ? `${where} is waiting to start - no logs yet` : `${where} is waiting to start: ${reason}`,
  );
}

/** Answers with a container's log, as long as it goes on when it is followed. */
export async function sendLogs(
  worker: PodWorker,
  name: string,
  asked: LogRequest,
  request: IncomingMessage,
  response: ServerResponse,
  stopped: AbortSignal,
): Promise<void> {
  const status = loggedContainer(worker, name, asked.previous);
  const gone = new LinkedSignal(stopped);
  const leave = () => gone.abort();
  request.once('close', leave);
  response.once('close', leave);
  const { signal } = gone;
  response.writeHead(200, { 'Content-Type': 'text/plain', 'Transfer-Encoding': 'chunked' });
  response.flushHeaders();
  const formatter = new LogFormatter(asked);
  try {
    const { runtime } = worker.record;
    const lines =
      runtime?.hollow && status.logPath === ''
        ? simulatedLines(worker, status, asked.tailLines, signal)
        : logLines({
            path: status.logPath,
            tailLines: asked.tailLines,
            follow: asked.follow,
            signal,
            ended: worker.whenEnded(status.id, signal),
          });
    for await (const some of lines) {
      const bytes = formatter.format(some);
      if (bytes.length > 0 && !response.write(bytes)) await once(response, 'drain', { signal });
      if (formatter.full) break;
    }
    response.end();
  } catch (error) {
    // cut off, so that nobody takes it for the whole
    response.destroy();
    if (!signal.aborted) throw error;
  } finally {
    gone.release();
  }
}

/** A simulated runtime has no files: it is asked, while the container runs. */
async function* simulatedLines(
  { record }: PodWorker,
  status: ContainerStatus,
  tailLines: number | undefined,
  signal: AbortSignal,
): AsyncGenerator<readonly Buffer[]> {
  const driver = record.runtime?.hub.driver;
  if (!driver || status.state !== 'RUNNING') return;
  const { stdout } = await driver.execSync(status.id, ['oarlock.dev/logs'], 10, { signal });
  const lines = stdout
    .toString('utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => Buffer.from(line));
  yield tailLines === undefined ? lines : lines.slice(Math.max(0, lines.length - tailLines));
}
