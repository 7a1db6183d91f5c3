// Shows times in the browser's time zone and names it. Without this script, times are in the zone of the service.
(() => {
  'use strict'
  const fr = document.documentElement.lang === 'fr'
  const words = new Intl.DateTimeFormat(fr ? 'fr-FR' : 'en-GB', {
    day: 'numeric', month: 'long', year: 'numeric', hour: '2-digit', minute: '2-digit', timeZoneName: 'short'
  })
  for (const shown of document.querySelectorAll('time[datetime*="T"]')) {
    const at = new Date(shown.dateTime)
    if (!isNaN(at)) shown.textContent = words.format(at)
  }
})()
