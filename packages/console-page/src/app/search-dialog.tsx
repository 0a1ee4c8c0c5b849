import { useState } from 'preact/hooks';
import { Dialog } from '../components/dialog.tsx';
import { text } from '../text/en.ts';
import { navigationOf } from '../views/registry.ts';
import { useApp } from './context.ts';
import { useNewestResources } from './hooks.ts';
import { tableLink } from './links.ts';

interface Target {
  readonly label: string;
  readonly detail: string;
  readonly href: string;
}
const maxTargets = 12;

/** Goes to a view or to the table of a resource by a part of its name. */
export function SearchDialog({ onClose }: { readonly onClose: () => void }) {
  const { resources, features } = useApp();
  useNewestResources('search');
  const [words, setWords] = useState('');
  const [selected, setSelected] = useState(0);
  const targets = targetsOf(words.toLowerCase().trim(), [
    ...navigationOf(features)
      .filter(({ href }) => !href.startsWith('#/r/') && href !== '#/create')
      .map(({ label, href }) => ({ label, detail: '', href, names: [label] })),
    ...resources
      .filter(({ verbs }) => verbs.includes('list'))
      .map((resource) => ({
        label: resource.resource,
        detail: resource.group === '' ? resource.version : `${resource.group}/${resource.version}`,
        href: tableLink(resource),
        names: [resource.resource, resource.kind, ...resource.shortNames],
      })),
    { label: text.create.title, detail: '', href: '#/create', names: [text.create.title] },
  ]);
  const open = (target: Target | undefined) => {
    if (target === undefined) return;
    location.hash = target.href;
    onClose();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') setSelected(Math.min(selected + 1, targets.length - 1));
    else if (event.key === 'ArrowUp') setSelected(Math.max(selected - 1, 0));
    else if (event.key === 'Enter') open(targets[selected]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title={text.searchResources} onClose={onClose}>
      <input
        type="text"
        role="combobox"
        aria-label={text.searchResources}
        aria-expanded="true"
        aria-controls="search-targets"
        aria-activedescendant={targets.length > 0 ? `target-${selected}` : undefined}
        placeholder={text.searchHint}
        autofocus
        value={words}
        onInput={({ currentTarget }) => {
          setWords(currentTarget.value);
          setSelected(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id="search-targets" class="targets" role="listbox" aria-label={text.searchResources}>
        {targets.map((target, index) => (
          <li
            key={target.href}
            id={`target-${index}`}
            role="option"
            aria-selected={index === selected}
            class={index === selected ? 'selected' : ''}
            onClick={() => open(target)}
          >
            <span>{target.label}</span>
            <span class="quiet-text">{target.detail}</span>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

interface Candidate extends Target {
  readonly names: readonly string[];
}

/** Returns the candidates with a matching name: exact names first, then beginnings, then parts. */
export function targetsOf(words: string, candidates: readonly Candidate[]): readonly Target[] {
  const rank = ({ names }: Candidate): number => {
    const lower = names.map((name) => name.toLowerCase());
    if (words === '') return 2;
    return lower.includes(words) ? 0 : lower.some((name) => name.startsWith(words)) ? 1 : lower.some((name) => name.includes(words)) ? 2 : 3;
  };
  return candidates
    .map((candidate) => ({ candidate, rank: rank(candidate) }))
    .filter((each) => each.rank < 3)
    .sort((a, b) => a.rank - b.rank)
    .slice(0, maxTargets)
    .map(({ candidate }) => candidate);
}
