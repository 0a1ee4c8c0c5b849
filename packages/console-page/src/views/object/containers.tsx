import { useClock } from '../../app/hooks.ts';
import { objectLink } from '../../app/links.ts';
import { StatusDot } from '../../components/status-dot.tsx';
import { text } from '../../text/en.ts';
import { stateDetails, stateOf } from './container-state.ts';
import type { TabProps } from './object-page.tsx';
import type { Container, ContainerStatus, Pod, Workload } from './workload-kinds.ts';

/** The containers of a pod with their states, or those of a pod template. */
export function Containers({ resource, object }: TabProps) {
  const now = useClock();
  const isPod = object.kind === 'Pod';
  const { spec, status = {} } = isPod ? (object as Pod) : { spec: (object as Workload).spec?.template?.spec };
  const containers: readonly Container[] = [...(spec?.initContainers ?? []), ...(spec?.containers ?? []), ...(spec?.ephemeralContainers ?? [])];
  if (containers.length === 0) return null;
  const statuses = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? []), ...(status.ephemeralContainerStatuses ?? [])];
  return (
    <>
      <h2>{isPod ? text.container.title : text.workload.images}</h2>
      <ul class="plain">
        {containers.map(({ name, image, ports = [] }) => {
          const own = statuses.find((each) => each.name === name);
          return (
            <li key={name}>
              <strong>{name}</strong> <code>{image}</code>
              {ports.length > 0 && <span class="quiet-text"> {ports.map(({ containerPort }) => `:${containerPort}`).join(' ')}</span>}
              {own && <State status={own} logs={objectLink(resource, object.metadata, 'logs')} now={now} />}
            </li>
          );
        })}
      </ul>
    </>
  );
}

function State({ status, logs, now }: { readonly status: ContainerStatus; readonly logs: string; readonly now: number }) {
  const state = stateOf(status, now);
  if (state === undefined) return null;
  return (
    <div>
      <StatusDot {...state} />{' '}
      {status.state?.waiting === undefined || status.lastState?.terminated !== undefined ? <a href={logs}>{text.object.tabs.logs}</a> : null}
      {stateDetails(status, now).map((line) => (
        <div key={line} class="quiet-text message">
          {line}
        </div>
      ))}
    </div>
  );
}
