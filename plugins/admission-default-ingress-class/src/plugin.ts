import { ingressClasses } from '@oarlock/api/resources';
import { parseTime } from '@oarlock/api/time';
import type { Ingress, IngressClass } from '@oarlock/api/types/networking-v1';
import { Admission, allow } from '@oarlock/spi/admission';
import { Client } from '@oarlock/spi/client';
import { z } from 'zod';

const mark = 'ingressclass.kubernetes.io/is-default-class';
const old = 'kubernetes.io/ingress.class';
const made = ({ metadata }: IngressClass) => parseTime(metadata?.creationTimestamp ?? '') ?? 0;
const nameOf = ({ metadata }: IngressClass) => metadata?.name ?? '';

/** Names the default IngressClass in Ingresses that name none; the newest of several, then the first by name. */
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
        .filter((each) => each.metadata?.annotations?.[mark] === 'true')
        .sort((a, b) => made(b) - made(a) || (nameOf(a) < nameOf(b) ? -1 : 1));
      return first === undefined ? object : { ...object, spec: { ...spec, ingressClassName: nameOf(first) } };
    },
  }),
});
