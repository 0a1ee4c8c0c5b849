import type { Pod } from '@oarlock/api/types/core-v1';
import { isObject } from '@oarlock/api/json';
import { Admission, allow, deny, type AdmissionRequest, type Verdict } from '@oarlock/spi/admission';
import { goReason } from '@oarlock/spi/go-reason';
import { jsonEndpointKeys, namesOneEndpoint, oneEndpointWanted } from '@oarlock/spi/json-endpoint';
import { JsonClient } from '@oarlock/spi/json-post';
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

/** The question as an ImageReview asks it: images, annotations that are meant for it, the namespace. */
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

/** Asks a service outside whether the images of a pod may be used. */
export default Admission.plugin({
  id: 'admission-image-policy-webhook',
  config: z
    .strictObject({
      ...jsonEndpointKeys,
      /** Seconds for which an answer is taken without another look. */
      allowTTL: z.number().min(0).max(1800).default(50),
      denyTTL: z.number().min(0).max(1800).default(50),
      timeoutSeconds: z.number().positive().max(30).default(10),
      /** Lets pods in when there is no answer. */
      defaultAllow: z.boolean().default(false),
    })
    .refine(namesOneEndpoint, oneEndpointWanted),
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
      if (code < 200 || code > 299) throw new Error(`the image policy webhook answered ${code}`);
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
    const judge = async (request: AdmissionRequest, pod: Pod): Promise<Verdict> => {
      let review: Review;
      try {
        review = await ask(specOf(pod, request.namespace));
      } catch (error) {
        log.warn({ err: error }, 'the image policy webhook does not answer');
        if (!config.defaultAllow) return deny(goReason(error));
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
      validate(request): Verdict | Promise<Verdict> {
        const { object, old } = request;
        if (object === undefined || (old !== undefined && images(object) === images(old))) return allow;
        return judge(request, object);
      },
    };
  },
});
