import { isObject } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import { groupResource } from '@oarlock/api/resource';
import type { CustomResourceConversion } from '@oarlock/api/types/apiextensions-v1';
import { errorText } from '@oarlock/primitives/error-text';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { ClusterFacts, ClusterKeys } from '@oarlock/spi/cluster';
import { Paths } from '@oarlock/spi/paths';
import { z } from 'zod';
import type { CustomObject, CustomResourceKind } from './custom-resource.ts';

type AnyKind = CustomResourceKind<CustomObject, z.ZodType>;

/** Returns the path of the API server at which the conversion of a kind is served. */
const conversionPathOf = ({ resource }: Pick<AnyKind, 'resource'>): `/${string}` => `/oarlock/v1/convert/${groupResource(resource)}`;

/** What the address of the conversion depends on. */
export interface ConversionEndpoint extends Pick<ClusterKeys, 'caBundle'>, Pick<ClusterFacts, 'serverUrl'> {}

/**
 * Returns the conversion of a definition whose webhook is the API server itself, at the path of `conversionPlugin`: by the Service `kubernetes`, or by
 * URL if the API server has only a loopback address, which cannot be an endpoint of the Service.
 */
export function conversionOf(kind: Pick<AnyKind, 'resource'>, { caBundle, serverUrl }: ConversionEndpoint): CustomResourceConversion {
  const path = conversionPathOf(kind);
  const { hostname } = new URL(serverUrl);
  const isLoopback = hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.');
  return {
    strategy: 'Webhook',
    webhook: {
      conversionReviewVersions: ['v1'],
      clientConfig: {
        ...(isLoopback
          ? { url: new URL(path, serverUrl).href }
          : { service: { namespace: 'default', name: 'kubernetes', port: 443, path } }),
        caBundle: Buffer.from(caBundle).toString('base64'),
      },
    },
  };
}

/**
 * Returns a plugin of the section `paths` that converts the objects of a kind in every API server. The path is public, because an API server sends no
 * credentials to a conversion webhook; conversions only compute.
 */
export function conversionPlugin<T extends CustomObject, Spec extends z.ZodType>(id: string, kind: CustomResourceKind<T, Spec>): Plugin {
  return Paths.plugin({
    id,
    config: z.strictObject({}),
    create: () => ({
      path: conversionPathOf(kind as unknown as AnyKind),
      methods: ['POST'],
      isPublic: true,
      handle: async ({ body }) => {
        const review = convertReview(kind as unknown as AnyKind, body);
        return review === undefined
          ? { code: 400, body: { message: 'the body is not a ConversionReview of apiextensions.k8s.io/v1' } }
          : { code: 200, body: review };
      },
    }),
  });
}

/** Answers a ConversionReview (apiextensions.k8s.io/v1). Returns undefined if the value is not a review with a request. */
export function convertReview(kind: Pick<AnyKind, 'convert'>, review: unknown): object | undefined {
  if (!isObject(review) || review['apiVersion'] !== 'apiextensions.k8s.io/v1' || !isObject(review['request'])) return undefined;
  const { uid, desiredAPIVersion, objects } = review['request'];
  if (typeof uid !== 'string' || typeof desiredAPIVersion !== 'string' || !Array.isArray(objects)) return undefined;
  const answer = (response: object) => ({
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'ConversionReview',
    response: { uid, ...response },
  });
  try {
    const convertedObjects = (objects as readonly KubeObject[]).map((object) => kind.convert(object, desiredAPIVersion));
    return answer({ result: { status: 'Success' }, convertedObjects });
  } catch (error) {
    return answer({ result: { status: 'Failure', message: errorText(error) } });
  }
}
