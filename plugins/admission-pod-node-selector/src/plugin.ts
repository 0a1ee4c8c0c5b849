import { errorText } from '@oarlock/primitives/error-text';
import { namespaces } from '@oarlock/api/resources';
import { parseLabelSelector } from '@oarlock/api/selectors/label-selector';
import type { Pod } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';

const annotation = 'scheduler.alpha.kubernetes.io/node-selector';
type Labels = Readonly<Record<string, string>>;

/** Parses labels in the format `a=b,c=d`. @throws Error if the text has another format */
function labelsOf(text: string): Labels {
  const labels: Record<string, string> = {};
  for (const { key, operator, values } of parseLabelSelector(text).requirements) {
    const [value, ...more] = values;
    if ((operator !== '=' && operator !== '==') || value === undefined || more.length > 0) throw new Error(`invalid selector: ${text}`);
    labels[key] = value;
  }
  return labels;
}
const selector = z.string().transform((text, context) => {
  try {
    return labelsOf(text);
  } catch (error) {
    context.addIssue({ code: 'custom', message: errorText(error) });
    return z.NEVER;
  }
});

/** Adds the node selector of the namespace to its pods, and rejects pods whose own node selector conflicts with it (PodNodeSelector). */
export default Admission.plugin({
  id: 'admission-pod-node-selector',
  config: z.strictObject({
    /** The node selector of namespaces without the annotation, in the format `env=dev,disk=ssd`. */
    clusterDefaultNodeSelector: selector.prefault(''),
    /** The node labels that pods may select, keyed by namespace. */
    namespaces: z.record(z.string(), selector).default({}),
  }),
  needs: { client: Client, informers: Informers },
  create({ client, informers, config }) {
    const known = informers.forResource(namespaces);
    const wantedIn = async (name: string): Promise<Labels> => {
      const { metadata } = known.get(name) ?? (await client.get(namespaces, { name }));
      const text = metadata?.annotations?.[annotation];
      return text === undefined ? config.clusterDefaultNodeSelector : labelsOf(text);
    };
    return {
      matches: [{ resources: ['pods'], operations: ['CREATE'] }],
      async mutate({ object, namespace }) {
        if (object === undefined) return allow;
        const { spec }: Pod = object;
        const wanted = await wantedIn(namespace);
        const held = spec?.nodeSelector ?? {};
        if (Object.entries(wanted).some(([key, value]) => held[key] !== undefined && held[key] !== value))
          return deny('pod node label selector conflicts with its namespace node label selector');
        return Object.keys(wanted).every((key) => held[key] !== undefined)
          ? object
          : { ...object, spec: { ...spec, nodeSelector: { ...held, ...wanted } } };
      },
      async validate({ object, namespace }) {
        const held = Object.entries(((object ?? {}) as Pod).spec?.nodeSelector ?? {});
        const allowed = config.namespaces[namespace];
        if (allowed === undefined) return allow;
        return held.every(([key, value]) => allowed[key] === value)
          ? allow
          : deny('pod node label selector labels conflict with its namespace whitelist');
      },
    };
  },
});
