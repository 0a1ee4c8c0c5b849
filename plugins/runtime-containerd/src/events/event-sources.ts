import { status as grpc, type ClientReadableStream, type ServiceError } from '@grpc/grpc-js';
import type { Clock } from '@oarlock/primitives/clock';
import type { RuntimeEvent } from '@oarlock/spi/runtime';
import { codec } from '../cri/codec.ts';
import type { CriClient } from '../cri/cri-client.ts';
import { toRuntimeError } from '../cri/runtime-errors.ts';

/**
 * One item of an event stream.
 *
 * - `live`: from here on no event can be missed;
 * - `cri`: an event of the CRI service, which already reports the new state;
 * - `task`: an event of containerd, emitted just before the CRI service reports the new state; `killed` is true after SIGKILL by anyone;
 * - `outOfMemory`: the kernel killed a process of the container, reported before or after its exit;
 * - `execAdded`, `execExited`: of a process that an exec added to a container.
 */
export type RawEvent =
  | { readonly kind: 'live'; readonly announcesExec: boolean }
  | {
      readonly kind: 'cri';
      readonly type: RuntimeEvent['type'];
      readonly id: string;
      readonly sandboxId: string | undefined;
      readonly at: number;
    }
  | {
      readonly kind: 'task';
      readonly type: 'STARTED' | 'STOPPED' | 'DELETED';
      readonly id: string;
      readonly at: number;
      readonly killed?: boolean;
      /** True if the event applies only to sandboxes. */
      readonly sandboxOnly?: boolean;
    }
  | { readonly kind: 'outOfMemory'; readonly id: string; readonly at: number }
  | { readonly kind: 'execAdded'; readonly containerId: string; readonly execId: string }
  | { readonly kind: 'execExited'; readonly execId: string; readonly exitCode: number };

interface CriEvent {
  readonly containerId: string;
  readonly containerEventType: string;
  readonly createdAt: number;
  readonly podSandboxStatus: { readonly id: string } | null;
}

/**
 * Yields the events of CRI's GetContainerEvents (CRI-O; containerd since 1.7, where a cancelled stream may consume one event of the next).
 * The service does not report when it starts to listen. A call on the same connection that is answered after the stream was opened is the
 * best approximation.
 * @throws RuntimeError `Unsupported` if the runtime does not implement the stream
 */
export async function* criEvents(client: CriClient, signal: AbortSignal): AsyncGenerator<RawEvent> {
  const stream = client.stream<CriEvent>('cri', '/runtime.v1.RuntimeService/GetContainerEvents', {
    requestType: 'GetContainerEventsRequest',
    itemType: 'ContainerEventResponse',
    request: {},
  });
  const items = itemsOf(stream, signal);
  const first = items.next();
  let failure: unknown;
  first.catch((error: unknown) => {
    failure = error;
  });
  // the error of an unimplemented method arrives at once, so before the second of these responses
  for (let call = 0; call < 2; call++) await client.cri('Version', {}, { signal });
  if (failure !== undefined) throw failure;
  yield { kind: 'live', announcesExec: false };
  for (let item = await first; !item.done; item = await items.next()) {
    const { containerId, containerEventType, createdAt, podSandboxStatus } = item.value;
    const type = /^CONTAINER_(\w+)_EVENT$/.exec(containerEventType)?.[1] as RuntimeEvent['type'];
    yield { kind: 'cri', type, id: containerId, sandboxId: podSandboxStatus?.id, at: Math.floor(createdAt / 1e6) };
  }
}

interface Envelope {
  readonly timestamp: { readonly seconds: number; readonly nanos: number } | null;
  readonly topic: string;
  readonly event: { readonly value: Buffer } | null;
}

const topics = ['/tasks/start', '/tasks/exit', '/tasks/oom', '/tasks/delete', '/tasks/exec-added', '/containers/delete'];
const markerTopic = '/oarlock/marker';
let markerCount = 0;

/**
 * Yields containerd's own events, which are below its CRI service and exist in every version. The service does not report when it starts to
 * listen, so a marker event is published through it: no event after the marker can be missed. The marker is repeated because the
 * first may be published before the subscription is active.
 * @throws RuntimeError `Unsupported` if the runtime is not containerd
 */
export async function* containerdEvents(client: CriClient, clock: Clock, signal: AbortSignal): AsyncGenerator<RawEvent> {
  const marker = `${markerTopic}/${process.pid}-${clock.now()}-${++markerCount}`;
  const filters = [...topics, marker].map((topic) => `topic=="${topic}"`);
  const stream = client.stream<Envelope>('containerd', '/containerd.services.events.v1.Events/Subscribe', {
    requestType: 'SubscribeRequest',
    itemType: 'Envelope',
    request: {
      filters,
    },
  });
  const publishMarker = () =>
    client.unary(
      'containerd',
      '/containerd.services.events.v1.Events/Forward',
      'ForwardRequest',
      'Empty',
      {
        envelope: {
          timestamp: timestamp(clock.now()),
          namespace: 'k8s.io',
          topic: marker,
          event: { typeUrl: 'oarlock.Marker', value: Buffer.alloc(0) },
        },
      },
      { signal },
      markerTimeoutMs,
    );
  let live = false;
  const publishUntilLive = async () => {
    // each round trip gives the subscription more time; the second marker is nearly always received
    while (!live && !signal.aborted) await publishMarker();
  };
  const publishing = publishUntilLive().catch((error: unknown) => {
    stream.destroy(error as Error);
  });
  try {
    for await (const { topic, event, timestamp: at } of itemsOf(stream, signal)) {
      if (topic === marker) {
        if (!live) yield { kind: 'live', announcesExec: true };
        live = true;
        continue;
      }
      if (event) yield* rawEvent(topic, event.value, at ? at.seconds * 1000 + Math.floor(at.nanos / 1e6) : clock.now());
    }
  } finally {
    live = true;
    await publishing;
  }
}

function* rawEvent(topic: string, value: Buffer, at: number): Generator<RawEvent> {
  switch (topic) {
    case '/tasks/start':
      yield {
        kind: 'task',
        type: 'STARTED',
        id: codec<{ containerId: string }>('containerd', 'TaskStart').decode(value).containerId,
        at,
      };
      return;
    case '/tasks/delete': {
      const { containerId, id, exitStatus } = codec<{ containerId: string; id: string; exitStatus: number }>(
        'containerd',
        'TaskDelete',
      ).decode(value);
      if (id === '' || id === containerId)
        yield { kind: 'task', type: 'STOPPED', id: containerId, at, killed: exitStatus === sigkillExitStatus };
      return;
    }
    case '/tasks/oom':
      yield { kind: 'outOfMemory', id: codec<{ containerId: string }>('containerd', 'TaskOOM').decode(value).containerId, at };
      return;
    case '/tasks/exit': {
      const { containerId, id, exitStatus } = codec<{ containerId: string; id: string; exitStatus: number }>(
        'containerd',
        'TaskExit',
      ).decode(value);
      if (id !== containerId) yield { kind: 'execExited', execId: id, exitCode: exitStatus };
      // a container's end is /tasks/delete: at its exit the output may not be read completely. containerd 2 may omit /tasks/delete of a sandbox
      else yield { kind: 'task', type: 'STOPPED', id: containerId, at, sandboxOnly: true };
      return;
    }
    case '/tasks/exec-added':
      yield { kind: 'execAdded', ...codec<{ containerId: string; execId: string }>('containerd', 'TaskExecAdded').decode(value) };
      return;
    case '/containers/delete':
      yield { kind: 'task', type: 'DELETED', id: codec<{ id: string }>('containerd', 'ContainerDelete').decode(value).id, at };
  }
}

/** The exit status of a process that SIGKILL ended: 128 + 9. */
const sigkillExitStatus = 137;
const markerTimeoutMs = 5_000;
const timestamp = (ms: number) => ({ seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1e6 });

/** Yields the items of a gRPC stream until the signal aborts. @throws RuntimeError if the stream fails */
async function* itemsOf<T extends object>(stream: ClientReadableStream<T>, signal: AbortSignal): AsyncGenerator<T> {
  const abort = () => stream.cancel();
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) stream.cancel();
  try {
    for await (const item of stream) yield item as T;
  } catch (error) {
    if (signal.aborted) return;
    throw isServiceError(error) ? toRuntimeError(error) : error;
  } finally {
    signal.removeEventListener('abort', abort);
    stream.cancel();
  }
}

const isServiceError = (error: unknown): error is ServiceError =>
  error instanceof Error && typeof (error as Partial<ServiceError>).code === 'number' && (error as ServiceError).code in grpc;
