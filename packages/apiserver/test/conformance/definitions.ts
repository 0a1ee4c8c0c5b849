import type { Thing, Wire } from './cluster.ts';

export const definitionsPath = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
export const open = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };

export interface Sketch {
  readonly group: string;
  readonly kind?: string;
  readonly versions?: readonly object[];
  readonly schema?: object;
  readonly labels?: Readonly<Record<string, string>>;
  readonly more?: object;
}

export function definition({ group, kind = 'Foo', versions = [{ name: 'v1' }], schema = open, labels = {}, more = {} }: Sketch): Thing {
  const plural = `${kind.toLowerCase()}s`;
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}`, labels },
    spec: {
      group,
      scope: 'Namespaced',
      names: { plural, singular: kind.toLowerCase(), kind, listKind: `${kind}List` },
      versions: versions.map((version, i) => ({ served: true, storage: i === 0, schema: { openAPIV3Schema: schema }, ...version })),
      ...more,
    },
  };
}

interface Conditioned extends Thing {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}
/** Creates a definition and waits until it is established. */
export async function establish(wire: Wire, created: Thing): Promise<string> {
  await wire.create(definitionsPath, created);
  const path = `${definitionsPath}/${created.metadata?.name}`;
  await wire.until<Conditioned>(
    path,
    (object) => object?.status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True') === true,
  );
  return path;
}

/** Polls a path until the response matches: documents follow a definition with a delay. */
export async function eventually<T>(ask: () => Promise<T>, holds: (answer: T) => boolean): Promise<T> {
  const end = Date.now() + 30_000;
  for (;;) {
    const answer = await ask();
    if (holds(answer)) return answer;
    if (Date.now() > end) throw new Error(`the condition was not met; the last response was ${JSON.stringify(answer)?.slice(0, 2000)}`);
    await new Promise((resolve) => {
      setTimeout(resolve, 20);
    });
  }
}

/** Returns an object of a definition's kind. */
export const foo = (group: string, name: string, more: object = {}, version = 'v1') => ({
  apiVersion: `${group}/${version}`,
  kind: 'Foo',
  metadata: { name },
  ...more,
});
