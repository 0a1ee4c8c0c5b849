import { isObject, jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { failure, type StatusError } from '@oarlock/api/status';
import type { CustomResourceConversion, CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import { errorText } from '@oarlock/primitives/error-text';
import { validateAnnotations, validateLabels } from '@oarlock/api/validation/meta';
import type { FieldError } from '@oarlock/api/field/field-error';
import { quoted, type ConversionRequest, type ConversionWebhooks } from './conversion-webhook.ts';

/** Converts the objects of one custom resource between versions. */
export interface Converter {
  /** True if conversion between versions calls a webhook. */
  readonly usesWebhook: boolean;
  /** Converts an object synchronously. Must not be called if `usesWebhook` is true. */
  sync(object: KubeObject, apiVersion: string): KubeObject;
  /**
   * Converts all objects with at most one webhook call, and returns the result of `then`. Returns a promise only if the webhook is called.
   * @throws StatusError InternalError if the conversion fails
   */
  convert<T>(request: ConversionRequest, then: (converted: readonly KubeObject[]) => T): T | Promise<T>;
}

const withApiVersion = (object: KubeObject, apiVersion: string): KubeObject =>
  object.apiVersion === apiVersion ? object : { ...object, apiVersion };

/** The converter of strategy None, which changes only apiVersion. */
const identityConverter: Converter = {
  usesWebhook: false,
  sync: withApiVersion,
  convert: ({ objects, desiredAPIVersion }, then) => then(objects.map((object) => withApiVersion(object, desiredAPIVersion))),
};

export function newConverter({ spec }: CustomResourceDefinition, webhooks: ConversionWebhooks): Converter {
  const { conversion } = spec;
  if (conversion?.strategy !== 'Webhook' || conversion.webhook === undefined) return identityConverter;
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

  convert<T>(request: ConversionRequest, then: (converted: readonly KubeObject[]) => T): T | Promise<T> {
    const { objects, desiredAPIVersion } = request;
    const toConvert = objects.filter((object) => object.apiVersion !== desiredAPIVersion);
    if (toConvert.length === 0) return then(objects);
    return this.#callWebhook({ ...request, objects: toConvert }).then((converted) => {
      let next = 0;
      return then(objects.map((object) => (object.apiVersion === desiredAPIVersion ? object : (converted[next++] as KubeObject))));
    });
  }

  async #callWebhook(request: ConversionRequest): Promise<readonly KubeObject[]> {
    const { objects, desiredAPIVersion, signal } = request;
    const failed = (why: string): StatusError =>
      failure('InternalError', `conversion webhook for ${objects[0]?.apiVersion ?? ''}, Kind=${objects[0]?.kind ?? ''} failed: ${why}`);
    let converted: readonly unknown[];
    try {
      converted = await this.#webhooks.convert(this.#webhook, request);
    } catch (error) {
      signal?.throwIfAborted();
      throw failed(errorText(error));
    }
    if (converted.length !== objects.length) throw failed(`returned ${converted.length} objects, expected ${objects.length}`);
    return converted.map((object, i) => {
      const source = objects[i] as KubeObject;
      if (!isObject(object)) throw failed(`invalid converted object at index ${i}: not an object`);
      const { apiVersion: returnedVersion, kind } = object as KubeObject;
      if (returnedVersion !== desiredAPIVersion)
        throw failed(
          `invalid converted object at index ${i}: invalid groupVersion (was ${quoted(returnedVersion)}, expected ${desiredAPIVersion})`,
        );
      if (kind !== source.kind)
        throw failed(`invalid converted object at index ${i}: invalid kind (was ${quoted(kind)}, expected ${source.kind ?? ''})`);
      return restoreImmutableMetadata(object as KubeObject, source, (why) => failed(`invalid metadata in object at index ${i}: ${why}`));
    });
  }
}

/** Restores the metadata of the source object, except labels and annotations, which are the only metadata that a webhook may change. */
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
    if (!jsonEqual(value ?? '', before ?? '')) throw failed(`must have the same ${key}: ${String(before ?? '')} != ${quoted(value ?? '')}`);
  const { labels: _labels, annotations: _annotations, ...rest } = own;
  const kept = {
    labels: checkedMap('labels', labels, { before: own.labels, validate: validateLabels, failed }),
    annotations: checkedMap('annotations', annotations, { before: own.annotations, validate: validateAnnotations, failed }),
  };
  return {
    ...converted,
    metadata: { ...rest, ...(kept.labels && { labels: kept.labels }), ...(kept.annotations && { annotations: kept.annotations }) },
  };
}

interface MapCheck {
  /** The map of the source object, which is not validated again. */
  readonly before: StringMap | undefined;
  readonly validate: typeof validateLabels;
  readonly failed: (why: string) => StatusError;
}
type StringMap = Readonly<Record<string, string>>;

/** Returns the labels or annotations of a converted object. @throws StatusError InternalError if they are not a map of valid strings */
function checkedMap(field: 'labels' | 'annotations', value: unknown, { before, validate, failed }: MapCheck): StringMap | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) throw failed(`metadata.${field} is not an object`);
  const wrong = Object.entries(value).find(([, text]) => typeof text !== 'string');
  if (wrong !== undefined) throw failed(`metadata.${field}[${quoted(wrong[0])}] must be a string`);
  const map = value as StringMap;
  if (jsonEqual(map, before ?? {})) return map;
  const errors: FieldError[] = [];
  validate(errors, `metadata.${field}`, map);
  const [first] = errors;
  if (first !== undefined) throw failed(quoted(`${first.field}: ${first.message}`));
  return map;
}
