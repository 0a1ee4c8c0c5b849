import { ingressClasses } from '@oarlock/api/resources';
import { parseTime } from '@oarlock/api/values/time';
import type { Ingress, IngressClass } from '@oarlock/api/types/networking-v1';
import { Admission, allow } from '@oarlock/spi/admission';
import { Client } from '@oarlock/spi/client';
import { z } from 'zod';

const defaultClassAnnotation = 'ingressclass.kubernetes.io/is-default-class';
const old = 'kubernetes.io/ingress.class';
const creationTime = ({ metadata }: IngressClass) => parseTime(metadata?.creationTimestamp ?? '') ?? 0;
const nameOf = ({ metadata }: IngressClass) => metadata?.name ?? '';

/**
 * Sets the default IngressClass of Ingresses without a class (DefaultIngressClass). Among several defaults, the newest class wins, then the first by
 * name.
 */
export default Admission.plugin({
  id: 'admission-default-ingress-class',
  config: z.strictObject({}),
  needs: { client: Client },
  create: ({ client }) => ({
    matches: [{ resources: ['ingresses.networking.k8s.io'], operations: ['CREATE'] }],
    async mutate({ object }) {
      if (object === undefined) return allow;
      const { spec, metadata }: Ingress = object;
      if (spec?.ingressClassName !== undefined || metadata?.annotations?.[old] !== undefined) return object;
      const [first] = (await client.list(ingressClasses)).items
        .filter((each) => each.metadata?.annotations?.[defaultClassAnnotation] === 'true')
        .sort((a, b) => creationTime(b) - creationTime(a) || (nameOf(a) < nameOf(b) ? -1 : 1));
      return first === undefined ? object : { ...object, spec: { ...spec, ingressClassName: nameOf(first) } };
    },
  }),
});
