import { join } from 'node:path';
import { repositoryOf, withDefaultRegistry, withDefaultTag } from '@oarlock/api/component-helpers/image-reference';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Image } from '@oarlock/spi/runtime';
import type { TrackedAuth } from '../keyring/docker-keyring.ts';
import {
  credentialVerification,
  type CredentialVerificationSettings,
  type RequiresVerification,
} from './credential-verification-policy.ts';
import {
  imagePulledRecord,
  imagePullIntent,
  mergePullCredentials,
  pullCredentialsOf,
  recordVersion,
  sameCoordinates,
  type ImagePullCredentials,
  type ImagePulledRecord,
  type ImagePullIntent,
} from './internal/pull-records.ts';
import { RecordDirectory } from './internal/record-directory.ts';

export interface ImagePullManagerOptions {
  /** The kubelet's directory. Records are in `image_manager/pulling` and `image_manager/pulled` below it, as upstream. */
  readonly rootDir: string;
  readonly verification: CredentialVerificationSettings;
  /** Returns the images of all runtimes whose pulls are recorded. */
  readonly listImages: (signal: AbortSignal) => Promise<readonly Image[]>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** An image as the container names it, and its id in the runtime. */
export interface PresentImage {
  readonly image: string;
  readonly imageRef: string;
}

/** Upstream's values of the label `result`. */
export type PullCheckResult = 'credentialPolicyAllowed' | 'credentialRecordFound' | 'mustAuthenticate' | 'error';

/** Beyond this number of Secrets per image, a check adds none to the record: namespaces come and go. */
const maxSecretsByMatching = 100;
/** The sizes to which upstream bounds its caches of records. */
const [maxCachedIntents, maxCachedRecords] = [1024, 2000];
const secondMs = 1000;

/** Returns the time as a record contains it: RFC 3339 without fractions of a second. */
const timestamp = (ms: number): string => `${new Date(ms).toISOString().slice(0, -'.000Z'.length)}Z`;
const normalized = (image: string): string => withDefaultRegistry(withDefaultTag(image));

/**
 * Knows which credentials pulled the images of the node, so that a pod cannot use an image that it could not pull itself (KEP-2535, PullManager
 * upstream). The records survive restarts. An image without a record was preloaded.
 */
export class ImagePullManager {
  readonly #options: ImagePullManagerOptions;
  readonly #requiresVerification: RequiresVerification;
  readonly #intents: RecordDirectory<ImagePullIntent>;
  readonly #pulled: RecordDirectory<ImagePulledRecord>;
  /** The number of pulls in progress, by image as containers name it. */
  readonly #inProgress = new Map<string, number>();
  /** Called after each check of a present image. */
  listener: (result: PullCheckResult) => void = () => {};

  constructor(options: ImagePullManagerOptions) {
    const { rootDir, verification, log } = options;
    this.#options = options;
    this.#requiresVerification = credentialVerification(verification);
    const directory = (name: string) => join(rootDir, 'image_manager', name);
    this.#intents = new RecordDirectory({ directory: directory('pulling'), schema: imagePullIntent, log });
    this.#pulled = new RecordDirectory({ directory: directory('pulled'), schema: imagePulledRecord, log });
  }

  /** How much of upstream's largest caches the records in memory would take, in percent. This kubelet keeps all of them in memory. */
  get cacheUsagePercent(): { readonly intents: number; readonly pulledRecords: number } {
    const percent = (size: number, max: number) => Math.min(100, Math.floor((size * 100) / max));
    return { intents: percent(this.intentCount, maxCachedIntents), pulledRecords: percent(this.pulledRecordCount, maxCachedRecords) };
  }
  get intentCount(): number {
    return this.#intents.size;
  }
  get pulledRecordCount(): number {
    return this.#pulled.size;
  }

  /**
   * Reads the records. An image of an interrupted pull that is present was pulled with unknown credentials.
   * @throws Error if the directories cannot be read
   */
  async load(signal: AbortSignal): Promise<void> {
    await this.#intents.load();
    await this.#pulled.load();
    if (this.#intents.size === 0) return;
    let images: readonly Image[];
    try {
      images = await this.#options.listImages(signal);
    } catch (error) {
      signal.throwIfAborted();
      this.#options.log.warn({ err: error }, 'listing images failed: records of interrupted pulls are kept');
      return;
    }
    for (const { image } of this.#intents.values) {
      const name = normalized(image);
      const present = images.filter(({ repoTags, repoDigests }) => [...repoTags, ...repoDigests].some((one) => normalized(one) === name));
      for (const { id } of present) await this.#record({ image, imageRef: id }, {});
      if (present.length > 0) await this.#intents.remove(image);
    }
  }

  /** Records that a pull starts. @throws Error if the record cannot be written: then the image must not be pulled */
  async recordPullIntent(image: string): Promise<void> {
    this.#inProgress.set(image, (this.#inProgress.get(image) ?? 0) + 1);
    try {
      await this.#intents.write(image, { kind: 'ImagePullIntent', apiVersion: recordVersion, image });
    } catch (error) {
      this.#count(image, -1);
      throw error;
    }
  }

  /** Records the credentials of a pull that ended well. If that fails, the intent remains: the image needs credentials again. */
  async recordImagePulled(pulled: PresentImage, used: TrackedAuth | undefined): Promise<void> {
    try {
      await this.#record(pulled, pullCredentialsOf(used));
      await this.#endPull(pulled.image);
    } catch (error) {
      this.#options.log.warn({ err: error, image: pulled.image }, 'recording the credentials of an image pull failed');
    }
  }

  async recordImagePullFailed(image: string): Promise<void> {
    try {
      await this.#endPull(image);
    } catch (error) {
      this.#options.log.warn({ err: error, image }, 'removing the record of an image pull failed');
    }
  }

  /**
   * Returns true if a pod may use a present image only after a pull with its own credentials. `credentials` is called only if they matter.
   * @throws Error if `credentials` rejects
   */
  async mustAttemptImagePull(present: PresentImage, credentials: () => Promise<readonly TrackedAuth[]>): Promise<boolean> {
    let result: PullCheckResult = 'error';
    try {
      result = await this.#check(present, credentials);
    } finally {
      this.listener(result);
    }
    return result === 'mustAuthenticate';
  }

  /** Removes the records of images that are not present. @throws Error if the images cannot be listed or a file cannot be removed */
  async pruneUnknownRecords(signal: AbortSignal): Promise<void> {
    const began = this.#options.clock.now();
    const present = new Set((await this.#options.listImages(signal)).map(({ id }) => id));
    for (const { imageRef, lastUpdatedTime } of this.#pulled.values) {
      // a pull may have ended after the list
      const isOlder = Date.parse(lastUpdatedTime) + secondMs <= began;
      if (isOlder && !present.has(imageRef)) await this.#pulled.remove(imageRef);
    }
  }

  async #check({ image, imageRef }: PresentImage, credentials: () => Promise<readonly TrackedAuth[]>): Promise<PullCheckResult> {
    const pulledByKubelet = this.#pulled.has(imageRef) || this.#inProgress.has(image) || this.#intents.has(image);
    if (!this.#requiresVerification(image, pulledByKubelet)) return 'credentialPolicyAllowed';
    const known = this.#pulled.get(imageRef)?.credentialMapping?.[repositoryOf(image)];
    if (known === undefined) return 'mustAuthenticate';
    if (known.nodePodsAccessible === true) return 'credentialRecordFound';
    const { kubernetesSecrets = [], kubernetesServiceAccounts = [] } = known;
    if (kubernetesSecrets.length === 0 && kubernetesServiceAccounts.length === 0) return 'mustAuthenticate';
    const ofPod = (await credentials()).filter(({ source }) => source !== undefined).map(pullCredentialsOf);
    for (const secret of ofPod.flatMap((each) => each.kubernetesSecrets ?? [])) {
      // a rotated Secret has other credentials, and copies of a Secret have other coordinates
      const matches = kubernetesSecrets.some((other) => secret.credentialHash === other.credentialHash || sameCoordinates(secret, other));
      if (!matches) continue;
      if (kubernetesSecrets.length < maxSecretsByMatching) await this.#remember({ image, imageRef }, { kubernetesSecrets: [secret] });
      return 'credentialRecordFound';
    }
    const accounts = ofPod.flatMap((each) => each.kubernetesServiceAccounts ?? []);
    const isKnown = accounts.some((one) => kubernetesServiceAccounts.some((other) => sameCoordinates(one, other)));
    return isKnown ? 'credentialRecordFound' : 'mustAuthenticate';
  }

  async #remember(present: PresentImage, credentials: ImagePullCredentials): Promise<void> {
    try {
      await this.#record(present, credentials);
    } catch (error) {
      this.#options.log.warn({ err: error, image: present.image }, 'recording the credentials of a pod failed');
    }
  }

  /** Adds credentials to the record of an image. Empty credentials only record that the kubelet pulled the image. */
  async #record({ image, imageRef }: PresentImage, credentials: ImagePullCredentials): Promise<void> {
    const record = this.#pulled.get(imageRef);
    const repository = repositoryOf(image);
    const known = record?.credentialMapping?.[repository];
    const isEmpty = Object.keys(credentials).length === 0;
    const merged = isEmpty ? known : mergePullCredentials(known, credentials);
    if (record !== undefined && merged === known) return;
    await this.#pulled.write(imageRef, {
      kind: 'ImagePulledRecord',
      apiVersion: recordVersion,
      lastUpdatedTime: timestamp(this.#options.clock.now()),
      imageRef,
      credentialMapping: { ...record?.credentialMapping, ...(merged !== undefined && { [repository]: merged }) },
    });
  }

  async #endPull(image: string): Promise<void> {
    this.#count(image, -1);
    if (!this.#inProgress.has(image)) await this.#intents.remove(image);
  }

  #count(image: string, change: number): void {
    const count = (this.#inProgress.get(image) ?? 0) + change;
    if (count > 0) this.#inProgress.set(image, count);
    else this.#inProgress.delete(image);
  }
}
