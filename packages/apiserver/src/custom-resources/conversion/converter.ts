import { isObject, jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { failure, type StatusError } from '@oarlock/api/status';
import type { CustomResourceConversion, CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import type { ConversionWebhooks } from './conversion-webhook.ts';

/** Turns objects of one resource from version to version. */
export interface Converter {
  /** Somebody else has to be asked. */
  readonly usesWebhook: boolean;
  /** Only where nobody has to be asked. */
  sync(object: KubeObject, apiVersion: string): KubeObject;
  /** All at once, and in one request where somebody has to be asked; a promise then. @throws StatusError InternalError */
  convert<T>(
    objects: readonly KubeObject[],
    apiVersion: string,
    then: (converted: readonly KubeObject[]) => T,
    signal?: AbortSignal,
  ): T | Promise<T>;
}

const withApiVersion = (object: KubeObject, apiVersion: string): KubeObject =>
  object.apiVersion === apiVersion ? object : { ...object, apiVersion };

/** Versions that differ in nothing but their name. */
const none: Converter = {
  usesWebhook: false,
  sync: withApiVersion,
  convert: (objects, apiVersion, then) => then(objects.map((object) => withApiVersion(object, apiVersion))),
};

export function newConverter({ spec }: CustomResourceDefinition, webhooks: ConversionWebhooks): Converter {
  const { conversion } = spec;
  if (conversion?.strategy !== 'Webhook' || conversion.webhook === undefined) return none;
  return new WebhookConverter(conversion.webhook, `${spec.group}, Kind=${spec.names.kind}`, webhooks);
}

class WebhookConverter implements Converter {
  readonly usesWebhook = true;
  readonly #webhook: NonNullable<CustomResourceConversion['webhook']>;
  readonly #kind: string;
  readonly #webhooks: ConversionWebhooks;

  constructor(webhook: NonNullable<CustomResourceConversion['webhook']>, kind: string, webhooks: ConversionWebhooks) {
    this.#webhook = webhook;
    this.#kind = kind;
    this.#webhooks = webhooks;
  }

  sync(object: KubeObject, apiVersion: string): KubeObject {
    if (object.apiVersion === apiVersion) return object;
    throw failure('InternalError', `Internal error occurred: an object of ${this.#kind} was shown before it was converted`);
  }

  convert<T>(
    objects: readonly KubeObject[],
    apiVersion: string,
    then: (converted: readonly KubeObject[]) => T,
    signal?: AbortSignal,
  ): T | Promise<T> {
    const foreign = objects.filter((object) => object.apiVersion !== apiVersion);
    if (foreign.length === 0) return then(objects);
    return this.#callWebhook(foreign, apiVersion, signal).then((converted) => {
      let at = 0;
      return then(objects.map((object) => (object.apiVersion === apiVersion ? object : (converted[at++] as KubeObject))));
    });
  }

  async #callWebhook(objects: readonly KubeObject[], apiVersion: string, signal: AbortSignal | undefined): Promise<readonly KubeObject[]> {
    const failed = (why: string): StatusError =>
      failure('InternalError', `conversion webhook for ${objects[0]?.apiVersion ?? ''}, Kind=${objects[0]?.kind ?? ''} failed: ${why}`);
    let converted: readonly unknown[];
    try {
      converted = await this.#webhooks.convert(this.#webhook, objects, apiVersion, signal);
    } catch (error) {
      signal?.throwIfAborted();
      throw failed(error instanceof Error ? error.message : String(error));
    }
    if (converted.length !== objects.length) throw failed(`returned ${converted.length} objects, expected ${objects.length}`);
    return converted.map((object, i) => {
      const source = objects[i] as KubeObject;
      if (!isObject(object)) throw failed(`invalid converted object at index ${i}: not an object`);
      const { apiVersion: given, kind } = object as KubeObject;
      if (given !== apiVersion)
        throw failed(`invalid converted object at index ${i}: invalid groupVersion (was ${String(given)}, expected ${apiVersion})`);
      if (kind !== source.kind)
        throw failed(`invalid converted object at index ${i}: invalid kind (was ${String(kind)}, expected ${source.kind ?? ''})`);
      return restoreImmutableMetadata(object as KubeObject, source, (why) => failed(`invalid metadata in object at index ${i}: ${why}`));
    });
  }
}

/** Of the metadata a webhook may change labels and annotations alone. */
function restoreImmutableMetadata(converted: KubeObject, source: KubeObject, failed: (why: string) => StatusError): KubeObject {
  const { metadata } = converted as { readonly metadata?: unknown };
  if (metadata !== undefined && !isObject(metadata)) throw failed('metadata is not an object');
  const { labels, annotations, name, namespace, uid } = (metadata ?? {}) as NonNullable<KubeObject['metadata']>;
  const own = source.metadata ?? {};
  for (const [key, value, before] of [
    ['name', name, own.name],
    ['namespace', namespace, own.namespace],
    ['UID', uid, own.uid],
  ] as const)
    if (!jsonEqual(value ?? '', before ?? '')) throw failed(`must have the same ${key}: ${String(before ?? '')} != ${String(value ?? '')}`);
  const { labels: _labels, annotations: _annotations, ...rest } = own;
  return { ...converted, metadata: { ...rest, ...(labels && { labels }), ...(annotations && { annotations }) } };
}
