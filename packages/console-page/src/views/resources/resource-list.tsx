import { useState } from 'preact/hooks';
import type { ApiResource } from '../../api/resources.ts';
import { useApp } from '../../app/context.ts';
import { useNewestResources } from '../../app/hooks.ts';
import { tableLink } from '../../app/links.ts';
import { DataTable, type DataColumn } from '../../components/data-table.tsx';
import { text } from '../../text/en.ts';
import { ObjectSearch } from './object-search.tsx';

const { columns: names } = text.resources;
const plain = (name: string, textOf: (resource: ApiResource) => string): DataColumn<ApiResource> => ({ name, textOf, cell: textOf });

const columns: readonly DataColumn<ApiResource>[] = [
  { name: names.kind, textOf: ({ kind }) => kind, cell: (resource) => <a href={tableLink(resource)}>{resource.kind}</a> },
  plain(names.resource, ({ resource }) => resource),
  plain(names.group, ({ group }) => (group === '' ? text.resources.core : group)),
  plain(names.version, ({ version }) => version),
  plain(names.scope, ({ namespaced }) => (namespaced ? text.resources.namespaced : text.resources.cluster)),
  plain(names.short, ({ shortNames }) => shortNames.join(', ')),
];

/** All resources that the server lists, and a search for objects of every kind. */
export function View() {
  const { resources } = useApp();
  useNewestResources('list');
  const [filter, setFilter] = useState('');
  const words = filter.toLowerCase();
  const listable = resources
    .filter(({ verbs }) => verbs.includes('list'))
    .filter((resource) => columns.some(({ textOf }) => textOf(resource).toLowerCase().includes(words)));
  return (
    <section class="table-view">
      <header class="view-head">
        <h1>{text.resources.title}</h1>
      </header>
      <ObjectSearch />
      <div class="controls">
        <label>
          <span>{text.resources.filter}</span>
          <input type="search" value={filter} onInput={({ currentTarget }) => setFilter(currentTarget.value)} />
        </label>
      </div>
      <DataTable
        label={text.resources.title}
        columns={columns}
        rows={listable}
        empty={text.table.noMatch}
        keyOf={({ group, resource }) => `${resource}.${group}`}
        onOpen={(resource) => {
          location.hash = tableLink(resource);
        }}
      />
    </section>
  );
}
