// Keeps the lawyer's desk live: it sends the same forms, and takes from the page that answers what has changed. Without it the page
// loads again by itself.
(() => {
  'use strict'
  const byId = id => document.getElementById(id)
  const desk = () => byId('desk')
  if (!desk()) return
  const title = document.title
  let ahead = 0 // of this clock, in ms
  let said = ''
  let warned = ''
  let sound = null

  const clock = () => Date.now() - ahead
  const left = text => Math.max(0, Date.parse(text) - clock())
  const minutes = ms => Math.floor(ms / 60000) + ':' + String(Math.floor(ms / 1000) % 60).padStart(2, '0')
  const synchronise = () => { ahead = Date.now() - Date.parse(desk().dataset.now) }

  const beep = () => {
    try {
      sound = sound || new AudioContext()
      for (const at of [0, 0.25]) {
        const tone = sound.createOscillator()
        tone.frequency.value = 880
        tone.connect(sound.destination)
        tone.start(sound.currentTime + at)
        tone.stop(sound.currentTime + at + 0.15)
      }
    } catch { /* no sound here */ }
  }
  const announce = text => {
    if (text !== said) byId('desk-say').textContent = said = text
  }

  let offer = desk().dataset.offer
  const noticed = () => {
    const d = desk().dataset
    announce(d.say)
    if (d.offer && d.offer !== offer) {
      beep()
      byId('desk-offer').scrollIntoView() // on a phone it lies below
      if (window.Notification && Notification.permission === 'granted' && document.hidden) new Notification(d.flash)
    }
    offer = d.offer
  }

  // merge brings the children of old to those of fresh, and leaves what is being written alone.
  const merge = (old, fresh) => {
    for (const [name, value] of Object.entries(fresh.dataset)) old.dataset[name] = value
    const known = new Map([...old.children].map(n => [n.id, n]))
    let at = old.firstElementChild
    for (const next of [...fresh.children]) {
      const same = known.get(next.id)
      const kept = same && ('keep' in same.dataset ? same.dataset.status === next.dataset.status : same.outerHTML === next.outerHTML)
      if (same && !kept && 'keep' in same.dataset) {
        for (const field of next.querySelectorAll('textarea')) field.value = byId(field.id).value
      }
      const node = kept ? same : next
      if (node === at) {
        at = at.nextElementSibling
        continue
      }
      old.insertBefore(node, at)
    }
    while (at) {
      const gone = at
      at = at.nextElementSibling
      gone.remove()
    }
    synchronise()
    tick()
    noticed()
  }
  const show = async response => {
    if (new URL(response.url).pathname !== location.pathname || !(response.headers.get('Content-Type') || '').startsWith('text/html')) {
      location.assign(response.url)
      return
    }
    const fresh = new DOMParser().parseFromString(await response.text(), 'text/html').getElementById('desk')
    if (fresh) merge(desk(), document.importNode(fresh, true))
  }
  const refresh = async () => {
    try {
      await show(await fetch('/desk'))
    } catch { lost(true) }
  }

  document.addEventListener('submit', event => {
    const form = event.target
    if (!desk().contains(form) || form.method !== 'post') return
    const by = event.submitter
    const action = (by && by.getAttribute('formaction')) || form.getAttribute('action')
    if (action.endsWith('/note')) return // what is refused comes back as it was typed
    event.preventDefault()
    const data = new URLSearchParams(new FormData(form, by))
    for (const button of form.querySelectorAll('button')) button.disabled = true
    fetch(action, { method: 'POST', body: data }).then(show).catch(() => lost(true)).finally(() => {
      for (const button of form.querySelectorAll('button')) button.disabled = false
    })
  })

  const timers = new Map()
  document.addEventListener('input', event => {
    const form = event.target.form
    if (!form || !form.dataset.draft) return
    clearTimeout(timers.get(form))
    timers.set(form, setTimeout(async () => {
      const tell = form.querySelector('[data-draft-said]')
      try {
        const response = await fetch(form.dataset.draft, {
          method: 'PUT',
          headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': desk().dataset.csrf },
          body: JSON.stringify({ note: form.elements.note.value, preview: form.elements.preview.value })
        })
        tell.textContent = response.ok ? desk().dataset.saved : desk().dataset.unsaved
      } catch { tell.textContent = desk().dataset.unsaved }
    }, 1500))
  })

  const tick = () => {
    for (const n of document.querySelectorAll('[data-until]')) n.textContent = minutes(left(n.dataset.until))
    for (const n of document.querySelectorAll('[data-bar]')) n.value = left(n.dataset.bar) / 1000
    for (const n of document.querySelectorAll('[data-since]')) n.textContent = minutes(Math.max(0, clock() - Date.parse(n.dataset.since)))
    const warn = byId('desk-warn')
    if (warn && left(warn.dataset.warnAt) <= 120000) {
      warn.hidden = false
      if (warned !== warn.dataset.warnAt) {
        warned = warn.dataset.warnAt
        announce(desk().dataset.warn)
        beep()
      }
    }
    document.title = desk().dataset.offer && Math.floor(clock() / 1000) % 2 ? desk().dataset.flash : title
  }

  let losing = 0
  const lost = yes => {
    clearTimeout(losing)
    if (yes) losing = setTimeout(() => { byId('desk-lost').hidden = false }, 3000)
    else byId('desk-lost').hidden = true
  }
  const follow = () => {
    const stream = new EventSource('/api/desk/v1/events')
    stream.addEventListener('open', () => lost(false))
    stream.addEventListener('state', event => {
      lost(false)
      if (event.lastEventId !== desk().dataset.version) refresh()
    })
    stream.addEventListener('signed-out', () => {
      stream.close()
      location.reload()
    })
    stream.addEventListener('error', () => {
      lost(true)
      if (stream.readyState !== EventSource.CLOSED) return // it comes back by itself
      setTimeout(() => { refresh(); follow() }, 8000)
    })
    window.addEventListener('pagehide', () => stream.close())
  }

  const ask = byId('desk-notify')
  if (window.Notification && Notification.permission === 'default') {
    ask.hidden = false
    ask.querySelector('button').addEventListener('click', async () => {
      await Notification.requestPermission()
      ask.hidden = true
    })
  }
  synchronise()
  tick()
  said = desk().dataset.offer ? '' : desk().dataset.say
  if (desk().dataset.offer) offer = ''
  noticed()
  setInterval(tick, 500)
  follow()
})()
