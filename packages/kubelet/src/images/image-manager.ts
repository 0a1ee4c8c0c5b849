import { applyDefaultImageTag, defaultPullPolicy } from '@oarlock/api/component-helpers/image-reference';
import type { Container, EphemeralContainer, Pod } from '@oarlock/api/types/core-v1';
import { errorText } from '@oarlock/primitives/error-text';
import type { Clock } from '@oarlock/primitives/clock';
import { inSpan, spanContextOf, type SpanContext } from '@oarlock/kernel/tracing';
import type { Tracer } from '@opentelemetry/api';
import type { Image, PodSandboxConfig, RuntimeDriver } from '@oarlock/spi/runtime';
import { podCredentials, pullWithCredentials, type CredentialSources, type PodCredentials, type PullResult } from './pod-credentials.ts';
import { formatDuration } from './format-duration.ts';
import type { ImagePullMetrics } from '../metrics/image-pull-metrics.ts';
import type { ImagePullManager } from './pull-manager/image-pull-manager.ts';
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

export interface ImageManagerOptions extends CredentialSources {
  /** Knows which credentials pulled an image. Undefined: pods can use every present image, as on simulated nodes. */
  readonly pullManager?: ImagePullManager | undefined;
  readonly clock: Clock;
  readonly tracer: Tracer;
  readonly metrics: ImagePullMetrics;
  /** The maximum number of concurrent pulls. */
  readonly maxParallelPulls: number;
  /** Returns why other runtimes do not run images here; empty if there are none. */
  readonly unavailableImages?: (signal: AbortSignal) => Promise<string>;
  /** Called when the images of the node changed. */
  imagesChanged(): void;
}

/** What the kubelet found out about an image that a container needs. A property is undefined if an error came first. */
export interface EnsuredImage {
  pullPolicy: string;
  presentLocally: boolean | undefined;
  pullRequired: boolean | undefined;
}

interface Failures {
  readonly backoff: RestartBackoff;
  readonly messages: Map<string, string>;
}

interface Pull {
  readonly requested: string;
  readonly began: number;
  readonly request: ImageRequest;
  readonly credentials: PodCredentials;
}

/** An image that must be pulled: its name with the default tag, the name in the pod, and the pod's credentials. */
interface NeededImage {
  readonly name: string;
  readonly requested: string;
  readonly request: ImageRequest;
  readonly credentials: () => Promise<PodCredentials>;
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
  readonly #sources: CredentialSources;
  readonly #pullManager: ImagePullManager | undefined;
  readonly #clock: Clock;
  readonly #tracer: Tracer;
  readonly #metrics: ImagePullMetrics;
  readonly #pulls: Semaphore;
  readonly #pulled: () => void;
  readonly #unavailableImages: ImageManagerOptions['unavailableImages'];
  /** The pull failures of each pod, keyed by pod uid. Most pods have no entry. */
  readonly #failures = new Map<string, Failures>();
  /** Called for each image that a container needs, before it is pulled. */
  listener: (ensured: EnsuredImage) => void = () => {};

  constructor(driver: RuntimeDriver, options: ImageManagerOptions) {
    const { clock, tracer, maxParallelPulls: parallel, imagesChanged: pulled } = options;
    this.#driver = driver;
    this.#sources = options;
    this.#pullManager = options.pullManager;
    this.#clock = clock;
    this.#tracer = tracer;
    this.#metrics = options.metrics;
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
    let lookup: Promise<PodCredentials> | undefined;
    const credentials = () => (lookup ??= podCredentials(this.#sources, { image: requested, pod, signal }));
    const needed = { name, requested, request, credentials };
    const { present, pullRequired } = await this.#check(needed, policy);
    if (present && !pullRequired) {
      event('Normal', 'Pulled', `Container image "${requested}" already present on machine and can be accessed by the pod`);
      return { reference: present.id, image: present };
    }
    if (policy === 'Never') {
      // the same message for an image that the pod may not use, which does not disclose that it is present
      const message = `Container image "${requested}" is not present with pull policy of Never`;
      event('Warning', 'ErrImageNeverPull', message);
      throw new ImageError('ErrImageNeverPull', { message, retryMs: undefined });
    }
    return this.#pullWithBackoff(needed);
  }

  /** Returns the present image, and true if the pod needs a pull before it may use the image. */
  async #check(needed: NeededImage, policy: string): Promise<{ readonly present: Image | undefined; readonly pullRequired: boolean }> {
    const ensured: EnsuredImage = { pullPolicy: policy, presentLocally: undefined, pullRequired: undefined };
    try {
      const present = await this.#status(needed.name, needed.request);
      ensured.presentLocally = present !== undefined;
      const pullRequired = present === undefined ? policy !== 'Never' : await this.#needsPull(present, { needed, policy });
      ensured.pullRequired = pullRequired;
      return { present, pullRequired };
    } finally {
      this.listener(ensured);
    }
  }

  #needsPull(present: Image, { needed, policy }: { readonly needed: NeededImage; readonly policy: string }): boolean | Promise<boolean> {
    // a runtime without images has nothing to pull
    if (!this.#driver.traits.images) return false;
    return policy === 'Always' || this.#mustAttemptPull(present, needed);
  }

  /** Returns true if the pod may use the present image only after a pull. Credentials that cannot be read also fail the pull, which reports why. */
  async #mustAttemptPull(present: Image, { requested, request, credentials }: NeededImage): Promise<boolean> {
    try {
      return await (this.#pullManager?.mustAttemptImagePull(
        { image: requested, imageRef: present.id },
        async () => (await credentials()).auths,
      ) ?? false);
    } catch {
      request.signal.throwIfAborted();
      return true;
    }
  }

  async #pullWithBackoff({ name, requested, request, credentials }: NeededImage): Promise<ResolvedImage> {
    const { pod, signal, event } = request;
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
      const pull = { requested, began, request, credentials: await credentials() };
      const image = await this.#pulls.run(signal, () => this.#pull(name, pull));
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
    this.#sources.credentialProviders?.forgetPod(uid);
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
    const { signal, spanContext, event } = request;
    event('Normal', 'Pulling', `Pulling image "${requested}"`);
    const started = this.#clock.monotonic();
    await this.#recordPullIntent(requested);
    const { id, used } = await this.#pullFromRegistry(name, { requested, request, credentials });
    // if this fails, the intent remains: the image counts as pulled with unknown credentials
    const image =
      (await this.#driver.imageStatus(id, { signal, spanContext })) ?? (await this.#driver.imageStatus(name, { signal, spanContext }));
    await this.#pullManager?.recordImagePulled({ image: requested, imageRef: image?.id ?? id }, used);
    const now = this.#clock.monotonic();
    this.#metrics.pulled((now - began) / 1000, image?.sizeBytes ?? 0);
    const size = image === undefined ? '' : ` Image size: ${image.sizeBytes} bytes.`;
    event(
      'Normal',
      'Pulled',
      `Successfully pulled image "${requested}" in ${formatDuration(now - started)} (${formatDuration(now - began)} including waiting).${size}`,
    );
    return { reference: image?.id ?? id, image };
  }

  async #recordPullIntent(requested: string): Promise<void> {
    try {
      await this.#pullManager?.recordPullIntent(requested);
    } catch (error) {
      const message = `Failed to record image pull intent for container image "${requested}": ${errorText(error)}`;
      throw new Error(message, { cause: error });
    }
  }

  async #pullFromRegistry(name: string, { requested, request, credentials }: Omit<Pull, 'began'>): Promise<PullResult> {
    const { sandbox, signal, spanContext } = request;
    try {
      return await inSpan(this.#tracer, 'PullImage', { spanContext, attributes: { 'oarlock.image': requested } }, async (span) => {
        const call = { signal, spanContext: spanContextOf(span) };
        return pullWithCredentials(credentials, (auth) => this.#driver.pullImage(name, auth, sandbox, call));
      });
    } catch (error) {
      await this.#pullManager?.recordImagePullFailed(requested);
      throw error;
    }
  }
}
