import type { KubeObject } from '../../api/client.ts';
import { resourceOfKind } from '../../api/resources.ts';
import { useApp } from '../../app/context.ts';
import { useObjects } from '../../app/hooks.ts';
import { objectLink } from '../../app/links.ts';
import { text } from '../../text/en.ts';
import { selects, type Pod, type Workload } from './workload-kinds.ts';

interface Service extends KubeObject {
  readonly spec?: { readonly selector?: Readonly<Record<string, string>> };
}
interface Ingress extends KubeObject {
  readonly spec?: {
    readonly defaultBackend?: Backend;
    readonly rules?: readonly { readonly http?: { readonly paths?: readonly { readonly backend?: Backend }[] } }[];
  };
}
interface Backend {
  readonly service?: { readonly name?: string };
}

interface RelatedObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
}

/** Returns the names of the Services that an Ingress sends traffic to. */
function backendsOf({ spec = {} }: Ingress): readonly string[] {
  const backends = [spec.defaultBackend, ...(spec.rules ?? []).flatMap(({ http }) => (http?.paths ?? []).map(({ backend }) => backend))];
  return backends.flatMap((backend) => backend?.service?.name ?? []);
}

/** The Services that select the pods, their EndpointSlices and Ingresses, and the claims of the pods' volumes. */
export function RelatedObjects({ object }: { readonly object: KubeObject }) {
  const { resources } = useApp();
  const namespace = encodeURIComponent(object.metadata.namespace ?? '');
  const template = (object as Workload).spec?.template;
  const labels = (object.kind === 'Pod' ? object.metadata.labels : template?.metadata?.labels) ?? {};
  const spec = object.kind === 'Pod' ? (object as Pod).spec : template?.spec;
  const services = useObjects<Service>(`/api/v1/namespaces/${namespace}/services`).items.filter(({ spec: own }) => selects(own?.selector, labels));
  const names = services.map(({ metadata: { name } }) => name);
  const slices = useObjects(
    names.length === 0 ? '' : `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`,
    names.length === 0 ? undefined : { labelSelector: `kubernetes.io/service-name in (${names.join(',')})` },
  ).items;
  const ingresses = useObjects<Ingress>(names.length === 0 ? '' : `/apis/networking.k8s.io/v1/namespaces/${namespace}/ingresses`).items.filter(
    (ingress) => backendsOf(ingress).some((name) => names.includes(name)),
  );
  const related: readonly RelatedObject[] = [
    ...names.map((name) => ({ apiVersion: 'v1', kind: 'Service', name })),
    ...slices.map(({ metadata: { name } }) => ({ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', name })),
    ...ingresses.map(({ metadata: { name } }) => ({ apiVersion: 'networking.k8s.io/v1', kind: 'Ingress', name })),
    ...(spec?.volumes ?? []).flatMap(({ persistentVolumeClaim: claim }) =>
      claim === undefined ? [] : [{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', name: claim.claimName }],
    ),
  ];
  if (related.length === 0) return null;
  return (
    <section aria-labelledby="related">
      <h2 id="related">{text.object.related}</h2>
      <ul class="tree">
        {related.map(({ apiVersion, kind, name }) => {
          const known = resourceOfKind(resources, apiVersion, kind);
          return (
            <li key={`${kind} ${name}`}>
              <span class="quiet-text">{kind}</span>{' '}
              {known ? <a href={objectLink(known, { namespace: object.metadata.namespace, name })}>{name}</a> : name}
            </li>
          );
        })}
      </ul>
    </section>
  );
}
