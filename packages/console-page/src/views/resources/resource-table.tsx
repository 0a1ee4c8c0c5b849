import { useMemo, useRef, useState } from 'preact/hooks';
import { pathOf } from '../../api/resources.ts';
import { TableStore, type Column, type Row } from '../../api/table-store.ts';
import { useApp } from '../../app/context.ts';
import { useClock, useNewestResources, useStore } from '../../app/hooks.ts';
import { useKeys } from '../../app/keyboard.ts';
import { paintSchedule } from '../../app/paint-schedule.ts';
import { groupOfSegment, objectLink, tableLink } from '../../app/links.ts';
import { Connection } from '../../components/connection.tsx';
import { DataTable, type DataColumn } from '../../components/data-table.tsx';
import { NamespaceSelect } from '../../components/namespace-select.tsx';
import { SelectorInput } from '../../components/selector-input.tsx';
import { absenceText } from '../../components/store-state.ts';
import { text } from '../../text/en.ts';
import type { ViewProps } from '../view-props.ts';
import { cellTextOf } from './cell-age.ts';
import { CellText } from './cell-text.tsx';
import { indexRows, RowFilter } from './row-filter.ts';

/** The table of a resource: the server's columns, live by watch. */
export function View({ params, query }: ViewProps) {
  const { client, resources, namespace } = useApp();
  const { version = '', resource: plural = '' } = params;
  const group = groupOfSegment(params['group'] ?? '');
  const known = resources.find((each) => each.group === group && each.resource === plural);
  useNewestResources(`${group}/${plural}`, known === undefined);
  const resource = { group, version, resource: plural, namespaced: known?.namespaced ?? true };
  const shownNamespace = resource.namespaced ? (query['ns'] ?? namespace) : '';
  const { labels = '', fields = '' } = query;
  const path = pathOf(resource, shownNamespace);
  const store = useStore(`${path}?${labels}&${fields}&${client.impersonation?.user ?? ''}`, () => {
    return new TableStore({ client, path, labelSelector: labels, fieldSelector: fields, schedule: paintSchedule(), onRows: indexRows });
  });
  const [filter, setFilter] = useState('');
  const [isWide, setWide] = useState(false);
  const filterInput = useRef<HTMLInputElement>(null);
  useKeys((keys) => {
    if (keys !== 'f') return false;
    filterInput.current?.focus();
    return true;
  });
  const now = useClock();
  const rowFilter = useMemo(() => new RowFilter(), [store]);
  const rows = rowFilter.apply(store.rows, filter, store.lastChange);
  const showsNamespace = resource.namespaced && shownNamespace === '';
  const columns = useMemo(
    () => columnsOf(store.columns, { isWide, showsNamespace, now, resource }),
    [store.columns, isWide, showsNamespace, now, path],
  );
  const setQuery = (change: Readonly<Record<string, string>>) => {
    location.hash = tableLink(resource, { ...query, ...change });
  };
  return (
    <section class="table-view">
      <header class="view-head">
        <h1>{known?.kind ?? plural}</h1>
        <Connection state={store.state} reason={store.reason} />
        <span class="quiet-text" role="status">
          {text.table.count(rows.length, store.rows.length)}
          {store.remaining > 0 && ` · ${text.connection.remaining(store.remaining)}`}
          {store.relists > 0 && ` · ${text.connection.relisted}`}
        </span>
      </header>
      <div class="controls">
        {resource.namespaced && <NamespaceSelect value={shownNamespace} onChange={(ns) => setQuery({ ns })} />}
        <label>
          <span>{text.table.filter}</span>
          <input ref={filterInput} type="search" value={filter} onInput={({ currentTarget }) => setFilter(currentTarget.value)} />
        </label>
        <SelectorInput label={text.table.labels} value={labels} placeholder={text.table.labelsExample} onChange={(value) => setQuery({ labels: value })} />
        <SelectorInput label={text.table.fields} value={fields} placeholder={text.table.fieldsExample} onChange={(value) => setQuery({ fields: value })} />
        <label class="check">
          <input type="checkbox" checked={isWide} onChange={({ currentTarget }) => setWide(currentTarget.checked)} />
          <span>{text.table.allColumns}</span>
        </label>
      </div>
      <DataTable
        label={known?.kind ?? plural}
        columns={columns}
        rows={rows}
        empty={absenceText([store], filter === '' ? text.table.empty : text.table.noMatch)}
        keyOf={({ uid }) => uid}
        onOpen={(row) => {
          location.hash = objectLink(resource, row);
        }}
      />
    </section>
  );
}

interface ColumnContext {
  readonly isWide: boolean;
  readonly showsNamespace: boolean;
  readonly now: number;
  readonly resource: { readonly group: string; readonly version: string; readonly resource: string };
}

/** Returns the columns of a table. */
function columnsOf(columns: readonly Column[], { isWide, showsNamespace, now, resource }: ColumnContext): readonly DataColumn<Row>[] {
  const shown = columns.map((column, index) => ({ ...column, index })).filter(({ priority }) => isWide || priority === 0);
  const result = shown.map(({ index, ...column }): DataColumn<Row> => {
    const { name, description } = column;
    const show = cellTextOf(column, resource.resource);
    const textOf = (row: Row) => show(row, row.cells[index] ?? '', now);
    return {
      name,
      ...(description !== undefined && { title: description }),
      textOf,
      cell: (row) => (index === 0 ? <a href={objectLink(resource, row)}>{name === 'Name' ? row.name : textOf(row)}</a> : <CellText name={name} value={textOf(row)} row={row} />),
    };
  });
  const namespaceColumn: DataColumn<Row> = {
    name: text.table.columnNamespace,
    textOf: (row) => row.namespace,
    cell: (row) => <a href={tableLink(resource, { ns: row.namespace })}>{row.namespace}</a>,
  };
  return showsNamespace ? [namespaceColumn, ...result] : result;
}
