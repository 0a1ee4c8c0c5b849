import { useMemo } from 'preact/hooks';
import { useApp } from '../../app/context.ts';
import { useObjects } from '../../app/hooks.ts';
import { objectLink } from '../../app/links.ts';
import { link } from '../../app/router.ts';
import { Connection } from '../../components/connection.tsx';
import { FlowDrawing } from '../../components/flow-drawing.tsx';
import { NamespaceSelect } from '../../components/namespace-select.tsx';
import { StatusDot } from '../../components/status-dot.tsx';
import { absenceText, stateOfAll } from '../../components/store-state.ts';
import { text } from '../../text/en.ts';
import { flowDrawing, nameOf, serviceFlows, type EndpointSlice, type Ingress, type Service, type ServiceFlow } from './service-flow.ts';

const words = text.topology.services;
const maxServices = 50;
const maxSlices = 500;
const maxDrawnEndpoints = 100;
/** The endpoints of a Service that the table lists. */
const maxListedEndpoints = 50;

const servicesResource = { group: '', version: 'v1', resource: 'services' };
const podsResource = { group: '', version: 'v1', resource: 'pods' };
const nodesResource = { group: '', version: 'v1', resource: 'nodes' };
const ingressesResource = { group: 'networking.k8s.io', version: 'v1', resource: 'ingresses' };

/** Where Services send to: their endpoints, and the nodes of these. */
export function Services() {
  const { namespace, resources, setNamespace } = useApp();
  const scope = namespace === '' ? '' : `/namespaces/${encodeURIComponent(namespace)}`;
  const hasIngresses = resources.some(({ group, resource }) => group === ingressesResource.group && resource === ingressesResource.resource);
  const services = useObjects<Service>(`/api/v1${scope}/services`, {}, { maxObjects: maxServices });
  const slices = useObjects<EndpointSlice>(`/apis/discovery.k8s.io/v1${scope}/endpointslices`, {}, { maxObjects: maxSlices });
  const ingresses = useObjects<Ingress>(hasIngresses ? `/apis/networking.k8s.io/v1${scope}/ingresses` : '', {}, { maxObjects: maxServices });
  const connection = stateOfAll([services, slices, ingresses]);
  const flows = useMemo(() => serviceFlows(services.items, slices.items, ingresses.items), [services.items, slices.items, ingresses.items]);
  const drawing = useMemo(() => flowDrawing(withinBound(flows)), [flows]);
  const isCut = services.items.length >= maxServices || withinBound(flows).length < flows.length;
  return (
    <>
      <p class="quiet-text">
        {words.help} <a href={link(['why', 'traffic'])}>{text.why.traffic}</a>
      </p>
      <div class="controls">
        <NamespaceSelect value={namespace} onChange={setNamespace} />
        <Connection state={connection.state} reason={connection.reason} />
      </div>
      {isCut && <p class="quiet-text">{words.cut(maxServices, maxDrawnEndpoints)}</p>}
      {flows.length === 0 ? (
        <p class="empty">{absenceText([services], words.empty)}</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label={words.drawing}>
          <FlowDrawing label={words.drawing} {...drawing} />
        </div>
      )}
      {flows.length > 0 && <FlowTable flows={flows} unknown={absenceText([slices], '')} />}
    </>
  );
}

/** Returns the first flows whose endpoints are few enough to be drawn. */
function withinBound(flows: readonly ServiceFlow[]): readonly ServiceFlow[] {
  let drawn = 0;
  return flows.filter(({ endpoints }) => (drawn += endpoints.length) <= maxDrawnEndpoints);
}

interface FlowTableProps {
  readonly flows: readonly ServiceFlow[];
  /** Why the endpoints are not known; '' if they are. */
  readonly unknown: string;
}

function FlowTable({ flows, unknown }: FlowTableProps) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={words.title}>
      <table class="plain-table">
        <thead>
          <tr>
            <th scope="col">{words.ingress}</th>
            <th scope="col">{words.service}</th>
            <th scope="col">{words.ports}</th>
            <th scope="col">{words.endpoints}</th>
          </tr>
        </thead>
        <tbody>
          {flows.map((flow) => (
            <FlowRow key={flow.service.metadata.uid} flow={flow} unknown={unknown} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface FlowRowProps extends Pick<FlowTableProps, 'unknown'> {
  readonly flow: ServiceFlow;
}

function FlowRow({ flow: { service, ingresses, endpoints }, unknown }: FlowRowProps) {
  const { namespace } = service.metadata;
  const { type = '', ports = [] } = service.spec ?? {};
  return (
    <tr>
      <td>
        {ingresses.map((name) => (
          <div key={name}>
            <a href={objectLink(ingressesResource, { namespace, name })}>{name}</a>
          </div>
        ))}
      </td>
      <th scope="row">
        <a href={objectLink(servicesResource, service.metadata)}>{nameOf(service)}</a>
        <div class="quiet-text">{type}</div>
      </th>
      <td>{ports.map(({ port, protocol = 'TCP' }) => `${port}/${protocol}`).join(', ')}</td>
      <td class="message">
        <Endpoints service={service} endpoints={endpoints} unknown={unknown} />
      </td>
    </tr>
  );
}

const states = {
  ready: { health: 'ok', label: words.ready },
  notReady: { health: 'warning', label: words.notReady },
  terminating: { health: 'pending', label: words.terminating },
} as const;

interface EndpointsProps extends Pick<ServiceFlow, 'service' | 'endpoints'>, Pick<FlowTableProps, 'unknown'> {}

function Endpoints({ service, endpoints, unknown }: EndpointsProps) {
  const { namespace } = service.metadata;
  const { type, externalName = '', selector } = service.spec ?? {};
  if (type === 'ExternalName') return <>{words.external(externalName)}</>;
  if (endpoints.length === 0 && unknown !== '') return <StatusDot health="unknown" label={unknown} />;
  if (endpoints.length === 0)
    return <StatusDot health="warning" label={selector === undefined ? words.noSelector : words.noEndpoints(Object.entries(selector).map((pair) => pair.join('=')).join(','))} />;
  return (
    <ul class="plain">
      {endpoints.slice(0, maxListedEndpoints).map(({ name, isPod, addresses, node, state }) => (
        <li key={name}>
          <StatusDot {...states[state]} /> {isPod ? <a href={objectLink(podsResource, { namespace, name })}>{name}</a> : name}{' '}
          <span class="quiet-text">{isPod && addresses.join(', ')}</span> {node !== '' && <a href={objectLink(nodesResource, { name: node })}>{node}</a>}
        </li>
      ))}
      {endpoints.length > maxListedEndpoints && <li class="quiet-text">{text.object.more(endpoints.length - maxListedEndpoints)}</li>}
    </ul>
  );
}
