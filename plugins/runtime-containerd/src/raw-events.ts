import { status as grpc, type ClientReadableStream, type ServiceError } from '@grpc/grpc-js';
import type { Clock } from '@oarlock/kernel/clock';
import type { RuntimeEvent } from '@oarlock/spi/runtime';
import { codec } from './codec.ts';
import type { CriChannel } from './cri-channel.ts';
import { toRuntimeError } from './runtime-errors.ts';

/**
 * What an event stream tells. `settled`: the CRI service shows the new state already. Otherwise the event comes from below it, a moment
 * before. `killed`: by SIGKILL, whoever sent it. `outOfMemory`: the kernel took a process of it; told before or after its end. `exec...`: of a process that was added to a container.
 */
export type RawEvent =
  | { readonly kind: 'live'; readonly announcesExec: boolean }
  | {
      readonly kind: 'settled';
      readonly type: RuntimeEvent['type'];
      readonly id: string;
      readonly sandboxId: string | undefined;
      readonly at: number;
    }
  | {
      readonly kind: 'unsettled';
      readonly type: 'STARTED' | 'STOPPED' | 'DELETED';
      readonly id: string;
      readonly at: number;
      readonly killed?: boolean;
      /** Says something only where the id is that of a sandbox. */
      readonly ofSandboxes?: boolean;
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
 * CRI's own events (CRI-O; containerd since 1.7, where a stream that was given up may still swallow an event). The service does not say when it has begun to listen; a call that is answered after the stream
 * was opened on the same connection is as near as one gets.
 * @throws RuntimeError `Unsupported` where the runtime has no such stream
 */
export async function* criEvents(channel: CriChannel, signal: AbortSignal): AsyncGenerator<RawEvent> {
  const stream = channel.stream<CriEvent>(
    'cri',
    '/runtime.v1.RuntimeService/GetContainerEvents',
    'GetContainerEventsRequest',
    'ContainerEventResponse',
    {},
  );
  const items = itemsOf(stream, signal);
  const first = items.next();
  let refusal: unknown;
  first.catch((error: unknown) => {
    refusal = error;
  });
  // a method that is not implemented is answered at once, so before the second of these
  for (let call = 0; call < 2; call++) await channel.cri('Version', {}, { signal });
  if (refusal !== undefined) throw refusal;
  yield { kind: 'live', announcesExec: false };
  for (let item = await first; !item.done; item = await items.next()) {
    const { containerId, containerEventType, createdAt, podSandboxStatus } = item.value;
    const type = /^CONTAINER_(\w+)_EVENT$/.exec(containerEventType)?.[1] as RuntimeEvent['type'];
    yield { kind: 'settled', type, id: containerId, sandboxId: podSandboxStatus?.id, at: Math.floor(createdAt / 1e6) };
  }
}

interface Envelope {
  readonly timestamp: { readonly seconds: number; readonly nanos: number } | null;
  readonly topic: string;
  readonly event: { readonly value: Buffer } | null;
}

const topics = ['/tasks/start', '/tasks/exit', '/tasks/oom', '/tasks/delete', '/tasks/exec-added', '/containers/delete'];
const markerTopic = '/oarlock/marker';
let markers = 0;

/**
 * The events of containerd itself, below its CRI service; every version has them. The service does not say when it has begun to listen, so a marker is sent
 * through it: what comes after the marker was seen cannot have been missed. The marker is repeated, because the first may be early.
 * @throws RuntimeError `Unsupported` where the runtime is not containerd
 */
export async function* containerdEvents(channel: CriChannel, clock: Clock, signal: AbortSignal): AsyncGenerator<RawEvent> {
  const marker = `${markerTopic}/${process.pid}-${clock.now()}-${++markers}`;
  const filters = [...topics, marker].map((topic) => `topic=="${topic}"`);
  const stream = channel.stream<Envelope>('containerd', '/containerd.services.events.v1.Events/Subscribe', 'SubscribeRequest', 'Envelope', {
    filters,
  });
  const send = () =>
    channel.unary(
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
      5_000,
    );
  let live = false;
  const mark = async () => {
    // each round trip gives the subscription more time; the second is enough but for very bad luck
    while (!live && !signal.aborted) await send();
  };
  const marking = mark().catch((error: unknown) => {
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
    await marking;
  }
}

function* rawEvent(topic: string, value: Buffer, at: number): Generator<RawEvent> {
  switch (topic) {
    case '/tasks/start':
      yield {
        kind: 'unsettled',
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
      if (id === '' || id === containerId) yield { kind: 'unsettled', type: 'STOPPED', id: containerId, at, killed: exitStatus === 137 };
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
      // of a container itself /tasks/delete tells: its output is not all read before. Of a sandbox containerd 2 may leave that out
      else yield { kind: 'unsettled', type: 'STOPPED', id: containerId, at, ofSandboxes: true };
      return;
    }
    case '/tasks/exec-added':
      yield { kind: 'execAdded', ...codec<{ containerId: string; execId: string }>('containerd', 'TaskExecAdded').decode(value) };
      return;
    case '/containers/delete':
      yield { kind: 'unsettled', type: 'DELETED', id: codec<{ id: string }>('containerd', 'ContainerDelete').decode(value).id, at };
  }
}

const timestamp = (ms: number) => ({ seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1e6 });

/** The items of a gRPC stream; ends when the signal aborts, throws what the stream fails with. */
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
