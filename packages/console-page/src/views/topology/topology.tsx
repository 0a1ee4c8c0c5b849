import { link } from '../../app/router.ts';
import { Tabs } from '../../components/tabs.tsx';
import { text } from '../../text/en.ts';
import type { ViewProps } from '../view-props.ts';
import { Nodes } from './nodes.tsx';
import { Services } from './services.tsx';

const parts = [
  { id: 'nodes', label: text.topology.nodesTab, Component: Nodes },
  { id: 'services', label: text.topology.services.title, Component: Services },
] as const;

/** Where pods run, and where Services send to. */
export function View({ params }: ViewProps) {
  const current = parts.find(({ id }) => id === params['part']) ?? parts[0];
  return (
    <section>
      <header class="view-head">
        <h1>{text.topology.title}</h1>
      </header>
      <Tabs label={text.topology.title} current={current.id} tabs={parts.map(({ id, label }) => ({ id, label, href: link(['topology', id]) }))} />
      <current.Component />
    </section>
  );
}
