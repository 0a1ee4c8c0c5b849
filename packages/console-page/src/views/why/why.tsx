import { link } from '../../app/router.ts';
import { Tabs } from '../../components/tabs.tsx';
import { text } from '../../text/en.ts';
import type { ViewProps } from '../view-props.ts';
import { AccessQuestion } from './access/access-question.tsx';
import { TrafficQuestion } from './traffic/traffic-question.tsx';

const questions = [
  { id: 'access', label: text.why.access, Component: AccessQuestion },
  { id: 'traffic', label: text.why.traffic, Component: TrafficQuestion },
] as const;

/** Questions about decisions of the cluster, each with the rules that decide. */
export function View({ params, query }: ViewProps) {
  const current = questions.find(({ id }) => id === params['question']) ?? questions[0];
  return (
    <section>
      <header class="view-head">
        <h1>{text.why.title}</h1>
      </header>
      <Tabs label={text.why.title} current={current.id} tabs={questions.map(({ id, label }) => ({ id, label, href: link(['why', id]) }))} />
      <current.Component query={query} />
    </section>
  );
}
