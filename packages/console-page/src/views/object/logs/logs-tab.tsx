import { useEffect, useRef, useState } from 'preact/hooks';
import { useApp } from '../../../app/context.ts';
import { useStore } from '../../../app/hooks.ts';
import { visibleRows } from '../../../components/virtual-rows.ts';
import { text } from '../../../text/en.ts';
import type { TabProps } from '../object-page.tsx';
import { useOwnedObjects } from '../owned-objects.ts';
import { LogStore, logSourcesOf, sourceKey } from './log-store.ts';
import { formatJson } from './plain-text.ts';

const lineHeight = 19;

/** The logs of all pods of a workload together. */
export function LogsTab({ object }: Pick<TabProps, 'object'>) {
  const { client } = useApp();
  const { pods } = useOwnedObjects(object);
  const [pod, setPod] = useState('');
  const [container, setContainer] = useState('');
  const [follow, setFollow] = useState(true);
  const [previous, setPrevious] = useState(false);
  const [since, setSince] = useState('all');
  const [filter, setFilter] = useState('');
  const [json, setJson] = useState(false);
  const sinceSeconds = since === 'all' ? '' : since;
  const store = useStore(
    JSON.stringify([pod, container, follow, previous, since]),
    () => new LogStore(client, { follow: follow && !previous, previous, sinceSeconds }, (work) => void requestAnimationFrame(work)),
  );
  const sources = logSourcesOf(pods, pod, container);
  const key = sources.map((source) => `${sourceKey(source)} ${source.isRunning}`).join(' ');
  useEffect(() => store.setSources(sources), [store, key]);
  const words = filter.toLowerCase();
  const isSingle = sources.length === 1;
  const lines = store.lines
    .filter((line) => words === '' || line.text.toLowerCase().includes(words))
    .flatMap(({ source, text: content }) => {
      const prefix = isSingle ? '' : `${source}  `;
      return json ? formatJson(content).map((part) => prefix + part) : [prefix + content];
    });
  const containers = [...new Set(logSourcesOf(pods, pod, '').map(({ container: name }) => name))];
  return (
    <div class="tab-body">
      <div class="controls">
        {pods.length > 1 && (
          <Choice label={text.logs.pod} value={pod} all={text.logs.allPods} names={pods.map(({ metadata }) => metadata.name)} onChange={setPod} />
        )}
        {containers.length > 1 && (
          <Choice label={text.logs.container} value={container} all={text.logs.allContainers} names={containers} onChange={setContainer} />
        )}
        <label>
          <span>{text.logs.since}</span>
          <select value={since} onChange={({ currentTarget }) => setSince(currentTarget.value)}>
            {Object.entries(text.logs.sinceOptions).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span>{text.logs.filter}</span>
          <input type="search" value={filter} onInput={({ currentTarget }) => setFilter(currentTarget.value)} />
        </label>
        <Check label={text.logs.follow} value={follow} onChange={setFollow} />
        <Check label={text.logs.previous} value={previous} onChange={setPrevious} />
        <Check label={text.logs.json} value={json} onChange={setJson} />
      </div>
      <p class="quiet-text" role="status">
        {text.logs.lines(lines.length)}
        {store.dropped > 0 && ` · ${text.logs.dropped(store.dropped)}`}
        {[...store.notices].map(([source, notice]) => ` · ${noticeText(source, notice)}`).join('')}
      </p>
      <LogLines lines={lines} follows={follow} />
    </div>
  );
}

/** Returns the text about a stream that ended or failed. */
function noticeText(source: string, notice: string): string {
  if (notice === 'ended') return text.logs.ended(source);
  return notice === 'resuming' ? text.logs.resuming(source) : `${source}: ${notice}`;
}

interface CheckProps {
  readonly label: string;
  readonly value: boolean;
  readonly onChange: (value: boolean) => void;
}
function Check({ label, value, onChange }: CheckProps) {
  return (
    <label class="check">
      <input type="checkbox" checked={value} onChange={({ currentTarget }) => onChange(currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}

interface ChoiceProps {
  readonly label: string;
  readonly value: string;
  readonly all: string;
  readonly names: readonly string[];
  readonly onChange: (value: string) => void;
}
function Choice({ label, value, all, names, onChange }: ChoiceProps) {
  return (
    <label>
      <span>{label}</span>
      <select value={value} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
        <option value="">{all}</option>
        {names.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The visible lines of a log. The view stays at the end while it follows, unless the user has scrolled up. */
function LogLines({ lines, follows }: { readonly lines: readonly string[]; readonly follows: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const lastTop = useRef(0);
  const [viewport, setViewport] = useState({ scrollTop: 0, height: 400 });
  const onScroll = () => {
    const element = box.current;
    if (element === null) return;
    // lines that arrive between a scroll to the end and its event do not end the following: only the user scrolls up
    if (element.scrollTop + element.clientHeight >= element.scrollHeight - lineHeight) isAtEnd.current = true;
    else if (element.scrollTop < lastTop.current) isAtEnd.current = false;
    lastTop.current = element.scrollTop;
    setViewport({ scrollTop: element.scrollTop, height: element.clientHeight });
  };
  useEffect(() => {
    const element = box.current;
    if (element !== null && follows && isAtEnd.current) element.scrollTop = element.scrollHeight;
  }, [lines.length, follows]);
  const { from, to, before, after } = visibleRows(viewport, lines.length, lineHeight);
  return (
    <div ref={box} class="log" tabIndex={0} role="log" aria-label={text.logs.output} aria-live="off" onScroll={onScroll}>
      <div style={{ height: `${before}px` }} />
      {lines.slice(from, to).map((line, offset) => (
        <div key={from + offset} class="log-line">
          {line}
        </div>
      ))}
      <div style={{ height: `${after}px` }} />
      {lines.length === 0 && <span class="quiet-text">{text.logs.empty}</span>}
    </div>
  );
}
