import type { Container, EphemeralContainer, Pod, Secret } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/kernel/clock';
import { inSpan, causeOf, type Cause } from '@oarlock/kernel/tracing';
import type { Tracer } from '@opentelemetry/api';
import { RuntimeError, type Image, type PodSandboxConfig, type RegistryAuth, type RuntimeDriver } from '@oarlock/spi/runtime';
import { credentialsFor } from './image-credentials.ts';
import type { ObjectCache } from './object-cache.ts';
import { podUid } from './pods.ts';
import { RestartBackoff } from './restart-backoff.ts';
import { Semaphore } from './semaphore.ts';

/** Why a container waits for its image: `ErrImagePull`, `ImagePullBackOff`, `ErrImageNeverPull`, `InvalidImageName`, `ImageInspectError`. */
export class ImageProblem extends Error {
  override readonly name = 'ImageProblem';
  readonly reason: string;
  /** When trying again makes sense, in milliseconds from now; undefined: the spec or an object has to change. */
  readonly retryMs: number | undefined;
  constructor(reason: string, message: string, retryMs: number | undefined, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
    this.retryMs = retryMs;
  }
}

export interface ImageRequest {
  readonly pod: Pod;
  readonly container: Container | EphemeralContainer;
  readonly sandbox: PodSandboxConfig;
  readonly signal: AbortSignal;
  readonly cause: Cause | undefined;
  event(type: 'Normal' | 'Warning', reason: string, message: string): void;
}

export interface ImageManagerOptions {
  readonly objects: Pick<ObjectCache, 'get'>;
  readonly clock: Clock;
  readonly tracer: Tracer;
  /** Pulls at a time. */
  readonly parallel: number;
  /** The images of the node have changed. */
  pulled(): void;
}

interface Failures {
  readonly backoff: RestartBackoff;
  readonly messages: Map<string, string>;
}

export interface PresentImage {
  /** What to create containers from. */ readonly reference: string;
  readonly image: Image | undefined;
}

const reference = /^[a-zA-Z0-9](?:[a-zA-Z0-9._-]|:\d+\/|\/)*(?::[\w][\w.-]{0,127})?(?:@[a-z0-9]+:[a-fA-F0-9]{32,})?$/;

/** `nginx` -> `nginx:latest`. @throws Error when it is no image name */
export function withDefaultTag(image: string): string {
  if (image.length > 4096 || !reference.test(image)) throw new Error(`couldn't parse image name "${image}": invalid reference format`);
  return /[:@][^/]*$/.test(image) ? image : `${image}:latest`;
}

/** How long a failed pull shows as such before it shows as waiting for the next. */
const backoffShownMs = 3000;

/** Makes images present on the node by each container's pull policy; failed pulls are tried again 10 s later, doubling to 300 s. */
export class ImageManager {
  readonly #driver: RuntimeDriver;
  readonly #objects: Pick<ObjectCache, 'get'>;
  readonly #clock: Clock;
  readonly #tracer: Tracer;
  readonly #pulls: Semaphore;
  readonly #pulled: () => void;
  /** By pod. Most never fail and have none. */
  readonly #failures = new Map<string, Failures>();

  constructor(driver: RuntimeDriver, { objects, clock, tracer, parallel, pulled }: ImageManagerOptions) {
    this.#driver = driver;
    this.#objects = objects;
    this.#clock = clock;
    this.#tracer = tracer;
    this.#pulls = new Semaphore(parallel);
    this.#pulled = pulled;
  }

  /** @throws ImageProblem */
  async ensure(request: ImageRequest): Promise<PresentImage> {
    const { container, pod, event, signal } = request;
    const asked = container.image ?? '';
    const tags = this.#driver.traits.images;
    let name = asked;
    try {
      if (tags) name = withDefaultTag(asked);
    } catch (error) {
      const message = `Failed to apply default image tag "${asked}": ${messageOf(error)}`;
      event('Warning', 'InspectFailed', message);
      throw new ImageProblem('InvalidImageName', message, undefined, { cause: error });
    }
    const policy = container.imagePullPolicy ?? (name.endsWith(':latest') ? 'Always' : 'IfNotPresent');
    const present = await this.#status(name, request);
    // a runtime without images has nothing that a pull could renew
    if (present && (policy !== 'Always' || !tags)) {
      event('Normal', 'Pulled', `Container image "${asked}" already present on machine and can be accessed by the pod`);
      return { reference: present.id, image: present };
    }
    if (policy === 'Never') {
      const message = `Container image "${asked}" is not present with pull policy of Never`;
      event('Warning', 'ErrImageNeverPull', message);
      throw new ImageProblem('ErrImageNeverPull', message, undefined);
    }
    const uid = podUid(pod);
    const before = this.#failures.get(uid);
    const wait = before?.backoff.pending(name, this.#clock.now()) ?? 0;
    if (wait > 0) {
      event('Normal', 'BackOff', `Back-off pulling image "${asked}"`);
      throw new ImageProblem(
        'ImagePullBackOff',
        `Back-off pulling image "${asked}": ErrImagePull: ${before?.messages.get(name) ?? ''}`,
        wait,
      );
    }
    const began = this.#clock.monotonic();
    try {
      const image = await this.#pulls.run(signal, () => this.#pull(name, asked, began, request));
      before?.backoff.forget(name);
      this.#pulled();
      return image;
    } catch (error) {
      signal.throwIfAborted();
      const message = messageOf(error);
      event('Warning', 'Failed', `Failed to pull image "${asked}": ${message}`);
      const now = this.#clock.now();
      const { backoff, messages } = before ?? this.#failuresOf(uid);
      backoff.next(name, now, now);
      messages.set(name, message);
      // soon enough to be seen waiting rather than failed
      throw new ImageProblem('ErrImagePull', message, Math.min(backoffShownMs, backoff.pending(name, now)), { cause: error });
    }
  }

  /** Forgets a pod's failures: it is gone. */
  forget(uid: string): void {
    this.#failures.delete(uid);
  }

  #failuresOf(uid: string): Failures {
    const failures = { backoff: new RestartBackoff(), messages: new Map<string, string>() };
    this.#failures.set(uid, failures);
    return failures;
  }

  async #status(name: string, { signal, cause, event }: ImageRequest): Promise<Image | undefined> {
    try {
      return await this.#driver.imageStatus(name, { signal, cause });
    } catch (error) {
      signal.throwIfAborted();
      const message = `Failed to inspect image "${name}": ${messageOf(error)}`;
      event('Warning', 'InspectFailed', message);
      throw new ImageProblem('ImageInspectError', message, 10_000, { cause: error });
    }
  }

  async #pull(name: string, asked: string, began: number, request: ImageRequest): Promise<PresentImage> {
    const { pod, sandbox, signal, cause, event } = request;
    event('Normal', 'Pulling', `Pulling image "${asked}"`);
    const started = this.#clock.monotonic();
    const id = await inSpan(this.#tracer, 'PullImage', { cause, attributes: { 'oarlock.image': asked } }, async (span) => {
      const call = { signal, cause: causeOf(span) };
      const auths = await this.#auths(asked, pod);
      let failure: unknown;
      for (const auth of auths.length === 0 ? [undefined] : auths) {
        try {
          return await this.#driver.pullImage(name, auth, sandbox, call);
        } catch (error) {
          failure = error;
          if (!(error instanceof RuntimeError && error.code === 'PermissionDenied')) break;
        }
      }
      throw failure;
    });
    const image = (await this.#driver.imageStatus(id, { signal, cause })) ?? (await this.#driver.imageStatus(name, { signal, cause }));
    const now = this.#clock.monotonic();
    const size = image === undefined ? '' : ` Image size: ${image.sizeBytes} bytes.`;
    event(
      'Normal',
      'Pulled',
      `Successfully pulled image "${asked}" in ${formatSpan(now - started)} (${formatSpan(now - began)} including waiting).${size}`,
    );
    return { reference: image?.id ?? id, image };
  }

  async #auths(image: string, pod: Pod): Promise<readonly RegistryAuth[]> {
    const found: Secret[] = [];
    for (const { name } of pod.spec?.imagePullSecrets ?? []) {
      const secret = name ? await this.#objects.get('Secret', `${pod.metadata?.namespace}/${name}`) : undefined;
      if (secret) found.push(secret);
    }
    return credentialsFor(image, found);
  }
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** As Go prints a duration that was cut to milliseconds. */
function formatSpan(ms: number): string {
  const rounded = Math.round(ms);
  if (rounded < 1000) return `${rounded}ms`;
  const seconds = rounded / 1000;
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${Math.round((seconds % 60) * 1000) / 1000}s`;
}
