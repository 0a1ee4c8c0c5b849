import { applyDefaultImageTag, defaultPullPolicy } from '@oarlock/api/component-helpers/image-reference';
import type { Container, EphemeralContainer, Pod, Secret } from '@oarlock/api/types/core-v1';
import { errorText } from '@oarlock/primitives/error-text';
import type { Clock } from '@oarlock/primitives/clock';
import { inSpan, spanContextOf, type SpanContext } from '@oarlock/kernel/tracing';
import type { Tracer } from '@opentelemetry/api';
import { RuntimeError, type Image, type PodSandboxConfig, type RegistryAuth, type RuntimeDriver } from '@oarlock/spi/runtime';
import type { CredentialProviders } from './credential-provider/credential-providers.ts';
import { lookupCredentials, repositoryWithRegistry } from './keyring/docker-keyring.ts';
import { credentialsFor } from './image-pull-credentials.ts';
import type { ObjectCache } from '../api-objects/object-cache.ts';
import { podUid } from '../pod-util/pods.ts';
import { RestartBackoff } from '../pod-util/restart-backoff.ts';
import { Semaphore } from '@oarlock/primitives/concurrency/semaphore';

/** The message, and the time until the next pull in milliseconds. */
export interface ImageErrorOptions {
  readonly message: string;
  readonly retryMs: number | undefined;
  readonly options?: ErrorOptions | undefined;
}

/** The reason why an image cannot be used: `ErrImagePull`, `ImagePullBackOff`, `ErrImageNeverPull`, `InvalidImageName` or `ImageInspectError`. */
export class ImageError extends Error {
  override readonly name = 'ImageError';
  readonly reason: string;
  /** The delay before a retry, in milliseconds; undefined if a retry is useless until the pod or another object changes. */
  readonly retryMs: number | undefined;
  constructor(reason: string, { message, retryMs, options }: ImageErrorOptions) {
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
  readonly spanContext: SpanContext | undefined;
  event(type: 'Normal' | 'Warning', reason: string, message: string): void;
}

export interface ImageManagerOptions {
  readonly objects: Pick<ObjectCache, 'get'>;
  /** The credential provider plugins; undefined if none are configured. */
  readonly credentialProviders?: Pick<CredentialProviders, 'provide' | 'forgetPod'> | undefined;
  readonly clock: Clock;
  readonly tracer: Tracer;
  /** The maximum number of concurrent pulls. */
  readonly maxParallelPulls: number;
  /** Returns why other runtimes do not run images here; empty if there are none. */
  readonly unavailableImages?: (signal: AbortSignal) => Promise<string>;
  /** Called when the images of the node changed. */
  imagesChanged(): void;
}

interface Failures {
  readonly backoff: RestartBackoff;
  readonly messages: Map<string, string>;
}

interface PullCredentials {
  readonly auths: readonly RegistryAuth[];
  /** Why credential providers returned none. */
  readonly failures: readonly string[];
}

interface Pull {
  readonly requested: string;
  readonly began: number;
  readonly request: ImageRequest;
  readonly credentials: PullCredentials;
}

export interface ResolvedImage {
  /** The id of the image, from which containers are created. */
  readonly reference: string;
  readonly image: Image | undefined;
}

/** How long the waiting reason is ErrImagePull before it becomes ImagePullBackOff. Milliseconds. */
const errImagePullVisibleMs = 3000;

/** Pulls images according to the containers' imagePullPolicy. Failed pulls are retried after 10 s; the delay doubles up to 300 s. */
export class ImageManager {
  readonly #driver: RuntimeDriver;
  readonly #objects: Pick<ObjectCache, 'get'>;
  readonly #credentialProviders: ImageManagerOptions['credentialProviders'];
  readonly #clock: Clock;
  readonly #tracer: Tracer;
  readonly #pulls: Semaphore;
  readonly #pulled: () => void;
  readonly #unavailableImages: ImageManagerOptions['unavailableImages'];
  /** The pull failures of each pod, keyed by pod uid. Most pods have no entry. */
  readonly #failures = new Map<string, Failures>();

  constructor(driver: RuntimeDriver, options: ImageManagerOptions) {
    const { objects, clock, tracer, maxParallelPulls: parallel, imagesChanged: pulled } = options;
    this.#driver = driver;
    this.#objects = objects;
    this.#credentialProviders = options.credentialProviders;
    this.#clock = clock;
    this.#tracer = tracer;
    this.#pulls = new Semaphore(parallel);
    this.#pulled = pulled;
    this.#unavailableImages = options.unavailableImages;
  }

  /** Pulls the image if the pull policy requires a pull, and returns the image. @throws ImageError if the image cannot be used */
  async ensureImageExists(request: ImageRequest): Promise<ResolvedImage> {
    const { container, pod, event, signal } = request;
    const requested = container.image ?? '';
    const tags = this.#driver.traits.images;
    let name = requested;
    try {
      if (tags) name = applyDefaultImageTag(requested);
    } catch (error) {
      const message = `Failed to apply default image tag "${requested}": ${errorText(error)}`;
      event('Warning', 'InspectFailed', message);
      throw new ImageError('InvalidImageName', { message, retryMs: undefined, options: { cause: error } });
    }
    const policy = container.imagePullPolicy ?? defaultPullPolicy(name);
    const present = await this.#status(name, request);
    // a runtime without images has nothing to pull
    if (present && (policy !== 'Always' || !tags)) {
      event('Normal', 'Pulled', `Container image "${requested}" already present on machine and can be accessed by the pod`);
      return { reference: present.id, image: present };
    }
    if (policy === 'Never') {
      const message = `Container image "${requested}" is not present with pull policy of Never`;
      event('Warning', 'ErrImageNeverPull', message);
      throw new ImageError('ErrImageNeverPull', { message, retryMs: undefined });
    }
    const uid = podUid(pod);
    const before = this.#failures.get(uid);
    const wait = before?.backoff.remainingSinceLastTry(name, this.#clock.now()) ?? 0;
    if (wait > 0) {
      event('Normal', 'BackOff', `Back-off pulling image "${requested}"`);
      throw new ImageError('ImagePullBackOff', {
        message: `Back-off pulling image "${requested}": ErrImagePull: ${before?.messages.get(name) ?? ''}`,
        retryMs: wait,
      });
    }
    const began = this.#clock.monotonic();
    try {
      const credentials = await this.#credentials(requested, request);
      const image = await this.#pulls.run(signal, () => this.#pull(name, { requested, began, request, credentials }));
      before?.backoff.forget(name);
      this.#pulled();
      return image;
    } catch (error) {
      signal.throwIfAborted();
      const message = await this.#explain(error, signal);
      event('Warning', 'Failed', `Failed to pull image "${requested}": ${message}`);
      const now = this.#clock.now();
      const { backoff, messages } = before ?? this.#failuresOf(uid);
      backoff.next(name, now, now);
      messages.set(name, message);
      // retry soon, so that the reason becomes ImagePullBackOff
      throw new ImageError('ErrImagePull', {
        message,
        retryMs: Math.min(errImagePullVisibleMs, backoff.remainingSinceLastTry(name, now)),
        options: {
          cause: error,
        },
      });
    }
  }

  /** Drops the pull failures of a deleted pod. */
  forgetPod(uid: string): void {
    this.#failures.delete(uid);
    this.#credentialProviders?.forgetPod(uid);
  }

  /** Returns the message of a failed pull; for a runtime without images also why no other runtime takes the image. */
  async #explain(error: unknown, signal: AbortSignal): Promise<string> {
    const others = this.#driver.traits.images ? '' : await this.#unavailableImages?.(signal);
    return others === undefined || others === '' ? errorText(error) : `${errorText(error)}; ${others}`;
  }

  #failuresOf(uid: string): Failures {
    const failures = { backoff: new RestartBackoff(), messages: new Map<string, string>() };
    this.#failures.set(uid, failures);
    return failures;
  }

  async #status(name: string, { signal, spanContext, event }: ImageRequest): Promise<Image | undefined> {
    try {
      return await this.#driver.imageStatus(name, { signal, spanContext });
    } catch (error) {
      signal.throwIfAborted();
      const message = `Failed to inspect image "${name}": ${errorText(error)}`;
      event('Warning', 'InspectFailed', message);
      throw new ImageError('ImageInspectError', { message, retryMs: 10_000, options: { cause: error } });
    }
  }

  async #pull(name: string, { requested, began, request, credentials }: Pull): Promise<ResolvedImage> {
    const { sandbox, signal, spanContext, event } = request;
    event('Normal', 'Pulling', `Pulling image "${requested}"`);
    const started = this.#clock.monotonic();
    const id = await inSpan(this.#tracer, 'PullImage', { spanContext, attributes: { 'oarlock.image': requested } }, async (span) => {
      const call = { signal, spanContext: spanContextOf(span) };
      return pullWithCredentials(credentials, (auth) => this.#driver.pullImage(name, auth, sandbox, call));
    });
    const image =
      (await this.#driver.imageStatus(id, { signal, spanContext })) ?? (await this.#driver.imageStatus(name, { signal, spanContext }));
    const now = this.#clock.monotonic();
    const size = image === undefined ? '' : ` Image size: ${image.sizeBytes} bytes.`;
    event(
      'Normal',
      'Pulled',
      `Successfully pulled image "${requested}" in ${formatSpan(now - started)} (${formatSpan(now - began)} including waiting).${size}`,
    );
    return { reference: image?.id ?? id, image };
  }

  /** Returns the credentials to try: those of imagePullSecrets, then those of credential providers (the order of upstream's keyrings). */
  async #credentials(image: string, { pod, signal }: ImageRequest): Promise<PullCredentials> {
    const found: Secret[] = [];
    for (const { name } of pod.spec?.imagePullSecrets ?? []) {
      const secret = name ? await this.#objects.get('Secret', `${pod.metadata?.namespace}/${name}`) : undefined;
      if (secret) found.push(secret);
    }
    const repository = repositoryWithRegistry(image);
    const ofSecrets = credentialsFor(repository, found);
    if (this.#credentialProviders === undefined) return { auths: ofSecrets, failures: [] };
    const { entries, failures } = await this.#credentialProviders.provide(repository, pod, signal);
    return { auths: [...ofSecrets, ...lookupCredentials(repository, entries)], failures };
  }
}

/** Tries one after the other until the registry does not deny access. Without credentials, there is one anonymous try. */
async function pullWithCredentials(
  { auths, failures }: PullCredentials,
  pull: (auth: RegistryAuth | undefined) => Promise<string>,
): Promise<string> {
  let failure: unknown;
  for (const auth of auths.length === 0 ? [undefined] : auths) {
    try {
      return await pull(auth);
    } catch (error) {
      failure = error;
      if (!(error instanceof RuntimeError && error.code === 'PermissionDenied')) break;
    }
  }
  if (failures.length === 0) throw failure;
  throw new Error(`${errorText(failure)}; ${failures.join('; ')}`, { cause: failure });
}

/** Formats a duration as Go does, rounded to milliseconds. */
function formatSpan(ms: number): string {
  const rounded = Math.round(ms);
  if (rounded < 1000) return `${rounded}ms`;
  const seconds = rounded / 1000;
  return seconds < 60 ? `${seconds}s` : `${Math.floor(seconds / 60)}m${Math.round((seconds % 60) * 1000) / 1000}s`;
}
