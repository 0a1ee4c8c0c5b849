import type { Pod } from '@oarlock/api/types/core-v1';
import { isObject } from '@oarlock/api/json/json';
import { Admission, allow, deny, type AdmissionRequest, type AdmissionDecision } from '@oarlock/spi/admission';
import { errorText } from '@oarlock/primitives/error-text';
import { jsonEndpointKeys, hasOneEndpoint, oneEndpointMessage } from '@oarlock/webhook-client/endpoint-config';
import { JsonClient } from '@oarlock/webhook-client/json-client';
import { z } from 'zod';

const marked = /^[^/]*\.image-policy\.k8s\.io\//;
const prefix = 'imagepolicywebhook.image-policy.k8s.io/';
const maxCached = 1024;
const defaultMessage = 'image policy webhook backend denied one or more images';

interface Review {
  readonly allowed: boolean;
  readonly reason: string;
  readonly audit: Readonly<Record<string, string>>;
}

/** Returns the spec of the ImageReview: the pod's images, the annotations for the webhook, and the namespace. */
function specOf({ metadata, spec }: Pod, namespace: string): Readonly<Record<string, unknown>> {
  const containers = [...(spec?.containers ?? []), ...(spec?.initContainers ?? []), ...(spec?.ephemeralContainers ?? [])].map(
    ({ image }) => ({ image: image ?? '' }),
  );
  const annotations = Object.fromEntries(Object.entries(metadata?.annotations ?? {}).filter(([key]) => marked.test(key)));
  return { containers, ...(Object.keys(annotations).length > 0 && { annotations }), namespace };
}

function reviewOf(body: unknown): Review {
  const status = isObject(body) && isObject(body['status']) ? body['status'] : {};
  const notes = isObject(status['auditAnnotations']) ? status['auditAnnotations'] : {};
  return {
    allowed: status['allowed'] === true,
    reason: typeof status['reason'] === 'string' ? status['reason'] : '',
    audit: Object.fromEntries(Object.entries(notes).filter((entry): entry is [string, string] => typeof entry[1] === 'string')),
  };
}

/** Calls an external webhook that decides whether the images of a pod are allowed (ImagePolicyWebhook). */
export default Admission.plugin({
  id: 'admission-image-policy-webhook',
  config: z
    .strictObject({
      ...jsonEndpointKeys,
      /** How long an allowed image review is cached, in seconds. */
      allowTTL: z.number().min(0).max(1800).default(50),
      denyTTL: z.number().min(0).max(1800).default(50),
      timeoutSeconds: z.number().positive().max(30).default(10),
      /** True to allow pods if the webhook is not available. */
      defaultAllow: z.boolean().default(false),
    })
    .refine(hasOneEndpoint, oneEndpointMessage),
  create({ config }, { clock, log }) {
    const service = new JsonClient(config);
    const cache = new Map<string, { readonly review: Review; readonly until: number }>();
    const ask = async (spec: Readonly<Record<string, unknown>>): Promise<Review> => {
      const key = JSON.stringify(spec);
      const known = cache.get(key);
      if (known !== undefined && known.until > clock.now()) return known.review;
      const { code, body } = await service.post(
        { apiVersion: 'imagepolicy.k8s.io/v1alpha1', kind: 'ImageReview', metadata: {}, spec },
        config.timeoutSeconds * 1000,
      );
      if (code < 200 || code > 299) throw new Error(`the image policy webhook returned status ${code}`);
      const review = reviewOf(body);
      cache.delete(key);
      if (cache.size >= maxCached)
        for (const oldest of cache.keys()) {
          cache.delete(oldest);
          break;
        }
      cache.set(key, { review, until: clock.now() + (review.allowed ? config.allowTTL : config.denyTTL) * 1000 });
      return review;
    };
    const reviewImages = async (request: AdmissionRequest, pod: Pod): Promise<AdmissionDecision> => {
      let review: Review;
      try {
        review = await ask(specOf(pod, request.namespace));
      } catch (error) {
        log.warn({ err: error }, 'calling the image policy webhook failed');
        if (!config.defaultAllow) return deny(errorText(error));
        request.annotate(`${prefix}failed-open`, 'true');
        return allow;
      }
      for (const [key, value] of Object.entries(review.audit)) request.annotate(`${prefix}${key}`, value);
      return review.allowed
        ? allow
        : deny(review.reason === '' ? defaultMessage : `image policy webhook backend denied one or more images: ${review.reason}`);
    };
    const images = (pod: Pod) => JSON.stringify(specOf(pod, '')['containers']);
    return {
      stop: async () => {
        service.close();
      },
      matches: [
        { resources: ['pods'], operations: ['CREATE', 'UPDATE'] },
        { resources: ['pods/ephemeralcontainers'], operations: ['UPDATE'] },
      ],
      validate(request): AdmissionDecision | Promise<AdmissionDecision> {
        const { object, old } = request;
        if (object === undefined || (old !== undefined && images(object) === images(old))) return allow;
        return reviewImages(request, object);
      },
    };
  },
});
